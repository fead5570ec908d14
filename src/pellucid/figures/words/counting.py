"""What is said of a model that makes or scores text: its facts, its samples with how new they are, and surprises."""

import math
from collections import Counter
from collections.abc import Iterator

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.tables import BAR, Cell, Part, Table, TableColumn, indent, note_lines, right
from pellucid.figures.words.notation import count_of, cut_end, large_count, nats_words, ordinal, rough
from pellucid.figures.words.notes import note_sentences, plain_with_notes
from pellucid.records import CountedParts, ModelFacts, Sample, Samples, ScoredText, Surprise, TrainedFacts, as_plain

LONGEST = 28  # letters of one cell
LONGEST_BAR = 24  # characters
EIGHTHS = " ▏▎▍▌▋▊▉█"


def facts_lines(facts: ModelFacts | TrainedFacts) -> list[str]:
    """The data, the model, its loss on dev beside the simplest models', and the size of its tables."""
    if isinstance(facts, TrainedFacts):
        return _trained_lines(facts)
    lines = [facts.source, f"{facts.name}, counted on {facts.n_train:,} tokens of train"]
    if facts.dev is None:
        lines.append(
            f"on train {nats_words(facts.train)} a token; there is no dev side, so how it does elsewhere is not known"
        )
    else:
        lines.append(f"on dev {nats_words(facts.dev)} a token, on train {facts.train.nats:.4f}")
        lines.append("beside it on dev: " + ", ".join(f"{name} {loss:.4f}" for name, loss in facts.baselines))
    if facts.dev is not None and facts.dev.n_impossible:
        lines.append(
            f"infinite, because {facts.dev.n_impossible:,} of {facts.dev.n_tokens:,} tokens of dev never followed "
            "their context in train; --s 0.1 mends it"
        )
    if facts.trials:
        best = {trial.order: math.inf for trial in facts.trials}
        for trial in facts.trials:
            best[trial.order] = min(best[trial.order], trial.dev)
        tried = ", ".join(f"{order}: {loss:.4f}" for order, loss in best.items())
        lines.append(f"chosen on dev from {len(facts.trials)}; by n {tried}")
    lines.append(f"a full table has {large_count(facts.n_entries)} entries; {facts.n_stored:,} numbers are kept")
    return lines


def _trained_lines(facts: TrainedFacts) -> list[str]:
    """The data, the network and its run, and its loss beside counting's."""
    kept = "the best on dev" if facts.is_finished else "the best so far, as the run is not finished"
    lines = [
        facts.source,
        f"{facts.name} of the run {facts.run}, {facts.parameters:,} parameters, "
        + (f"trained on {facts.n_train:,} tokens" if facts.n_train else "made by others"),
    ]
    if facts.dev is None or facts.train is None:
        lines.append(f"{f'weights of step {facts.step:,}; ' if facts.n_train else ''}how they do on dev is not known")
    else:
        lines.append(f"on dev {nats_words(facts.dev)} a token, on train {facts.train.nats:.4f}")
        lines.append(f"weights of step {facts.step:,}, {kept}")
    if facts.baselines:
        lines.append("beside it on dev: " + ", ".join(f"{name} {loss:.4f}" for name, loss in facts.baselines))
    return lines


def sample_parts(samples: Samples) -> Iterator[Part]:
    """What a terminal shows of samples: the model, how they were drawn, and each with how new it is."""
    lines = [*facts_lines(samples.model), *([line] if (line := drawing_words(samples)) else [])]
    yield from [Text(printable(line), "dim") for line in lines]
    yield Text("")
    yield from novelty_parts(samples.samples)
    yield from note_lines(note_sentences(samples.notes))


def novelty_parts(samples: tuple[Sample, ...]) -> Iterator[Part]:
    """Items of a list as a table with a tally below it, running text as it is."""
    if samples and samples[0].where:
        yield sample_table(samples)
        yield Text("")
        yield Text(tally(samples))
        return
    for number, sample in enumerate(samples, start=1):
        if len(samples) > 1:
            yield Text(f"sample {number}", "bold")
        yield from [indent(Text(printable(line))) for line in sample.text.split("\n")]
        yield Text("")
        copied = f": {cut_end(sample.copied, 60)}" if sample.copied else ""
        yield Text(f"{novelty_words(sample)}{copied}", "dim")


def sample_table(samples: tuple[Sample, ...], longest: int = LONGEST) -> Table:
    """A row for each item: what it cost, where it is found, and what of train it is nearest to."""
    made = Table("sample", *right("nats"), "found", "nearest in train", "copied")
    for sample in samples:
        near = (
            f"{cut_end(sample.nearest, longest)}, {count_of(sample.distance, 'edit')}" if sample.distance else "itself"
        )
        made.add(
            Cell((cut_end(sample.text, longest) or "(empty)") + "…" * sample.is_cut, "bold", is_code=True),
            f"{sample.nats:.2f}",
            f"in {sample.where}" if sample.where in ("train", "dev") else sample.where,
            near if sample.nearest else "",
            Cell(cut_end(sample.copied, longest), is_code=True),
        )
    return made


def novelty_words(sample: Sample) -> str:
    """What a sample of running text costs and how much of it was copied."""
    copied = "whether it was copied is not known"
    if sample.copied:
        copied = f"the longest part copied from train has {count_of(len(sample.copied), 'letter')}"
    return f"{sample.nats / max(1, sample.n_tokens):.4f} nats a token; {copied}"


def drawing_words(samples: Samples) -> str:
    """How the tokens were chosen, where it was not by chance among all of them.

    >>> from pellucid.records import MeanLoss, ModelFacts
    >>> facts = ModelFacts("bigram", "names", 27, 10, 10, 729, 729, MeanLoss(2.0, 10), None, ())
    >>> drawing_words(Samples(facts, "", 0.8, 0, (), filters={"top_k": 5, "top_p": 0.9}))
    'drawn from the 5 likeliest tokens, and of these from the fewest that hold 0.9 of the probability'
    >>> drawing_words(Samples(facts, "", 1.0, 0, (), beam=4, length_penalty=1.0))
    'the best that a beam of 4 found, by log-probability / length^1'
    """
    if samples.beam:
        by = f", by log-probability / length^{samples.length_penalty:g}" if samples.length_penalty else ""
        return f"the best that a beam of {samples.beam} found{by}"
    words = {"top_k": "the {:g} likeliest tokens", "top_p": "the fewest that hold {:g} of the probability"}
    parts = [
        words.get(name, f"those that {name.replace('_', '-')} {{:g}} leaves").format(value)
        for name, value in samples.filters.items()
        if (name, value) != ("top_p", 1)
    ]
    return f"drawn from {', and of these from '.join(parts)}" if parts else ""


def tally(samples: tuple[Sample, ...]) -> str:
    """How many are new, and how many the data have.

    >>> tally((Sample("emma", 9.0, 5, "train", "emma", 0, "emma"), Sample("emna", 12.0, 5, "new", "emma", 1, "em")))
    '2 samples: 1 in train, 0 in dev, 1 new; new are those in neither, as the test side is not looked at'
    """
    found = Counter(sample.where for sample in samples)
    if "not known" in found:
        return f"{count_of(len(samples), 'sample')}; whether the data have them is not known"
    return (
        f"{count_of(len(samples), 'sample')}: {found['train']} in train, {found['dev']} in dev, {found['new']} new; "
        "new are those in neither, as the test side is not looked at"
    )


def score_parts(scored: ScoredText) -> Iterator[Part]:
    """What a terminal shows of the surprise of each token of a text: a table with bars, the total, what it means."""
    yield from [Text(printable(line), "dim") for line in facts_lines(scored.model)]
    yield Text("")
    yield surprise_table(scored.surprises)
    yield Text("")
    total = f"{scored.nats:.4f}" if scored.nats < math.inf else "infinite"
    yield Text(f"in all {total} nats, probability {rough(math.exp(-scored.nats))}", "bold")
    yield Text(f"a mean over {count_of(scored.loss.n_tokens, 'token')} of {nats_words(scored.loss)}")
    if scored.counted_nats is not None:
        yield Text(learned_words(scored))
    if scored.where:
        yield Text(
            "it is new: neither in train nor in dev" if scored.where == "new" else f"it is one of {scored.where}'s"
        )
    yield from note_lines(note_sentences(scored.notes))


def plain_score(scored: ScoredText) -> dict[str, object]:
    """The scores as what JSON can hold, with their sums."""
    loss = scored.loss
    sums = {"nats": scored.nats, "mean_nats": loss.nats, "mean_bits": loss.bits, "perplexity": loss.perplexity}
    return {**plain_with_notes(scored), "sums": as_plain(sums)}


def learned_words(scored: ScoredText) -> str:
    """What of a score is counted, and what the network that starts from it changes.

    >>> from pellucid.records import MeanLoss, ModelFacts
    >>> facts = ModelFacts("gru", "names", 27, 10, 10, 729, 729, MeanLoss(2.0, 10), None, ())
    >>> surprise = Surprise("a", "b", math.exp(-1.5), 1.5, 1, "b", counted=math.exp(-2.0), gate=0.9)
    >>> learned_words(ScoredText("b", facts, (surprise,), ""))
    'counting alone has 2.0000 nats; what was learned takes 0.5000 off, trusting the counts 0.90 times on average'
    """
    counted = scored.counted_nats
    assert counted is not None
    gates = [one.gate for one in scored.surprises if one.gate is not None]
    change = f"takes {counted - scored.nats:.4f} off" if scored.nats <= counted else f"adds {scored.nats - counted:.4f}"
    trust = f"trusting the counts {math.fsum(gates) / len(gates):.2f} times on average"
    return f"counting alone has {counted:.4f} nats; what was learned {change}, {trust}"


def parts_words(parts: CountedParts) -> str:
    """What of the predictions is counted, and what the network makes of it.

    >>> print(parts_words(CountedParts(12_000, 0.912, 1.9584, 1.9, 1.95, 0.123)))
    On 12,000 tokens of dev counting alone has 1.9584 nats a token, the network alone 1.9500, both together 1.9000: the
    counts are trusted 0.91 times on average, and another token is the likeliest in 12.3 % of the places.
    """
    return (
        f"On {parts.n_tokens:,} tokens of dev counting alone has {parts.counted:.4f} nats a token, the network "
        f"alone {parts.alone:.4f}, both together {parts.both:.4f}: the counts are trusted {parts.gate:.2f} times on "
        f"average, and another token is the likeliest in {100 * parts.changed:.1f} % of the places."
    )


def surprise_table(surprises: tuple[Surprise, ...]) -> Table:
    """A row for each token, with a bar as long as it is surprising.

    Of a network that starts from counting, what the counts alone say stands in place of the bits.
    """
    is_counted = all(one.counted is not None for one in surprises)
    numbers = ("counted", "probability", "nats") if is_counted else ("probability", "nats", "bits")
    made = Table(*right("after"), "comes", *right(*numbers), TableColumn("", spare=BAR), "likeliest", n_keys=2)
    highest = max((one.nats for one in surprises if one.nats < math.inf), default=1.0)
    for one in surprises:
        is_finite = one.nats < math.inf
        cells = {
            "counted": _probability_words(one.counted or 0.0),
            "probability": _probability_words(one.probability),
            "nats": f"{one.nats:.3f}" if is_finite else "∞",
            "bits": f"{one.nats / math.log(2):.3f}" if is_finite else "∞",
        }
        made.add(
            cut_end(one.context, 24),
            Cell(cut_end(one.token, 24), "bold"),
            *(cells[name] for name in numbers),
            bar(one.nats, highest) if is_finite else "impossible: never seen here",
            "this" if one.rank == 1 else f"{cut_end(one.expected, 24)} (this is {ordinal(one.rank)})",
        )
    return made


def _probability_words(share: float) -> str:
    return f"{share:.4f}" if share >= 0.001 or not share else f"{share:.1e}"


def bar(value: float, highest: float, width: int = LONGEST_BAR) -> str:
    """A bar in proportion, to an eighth of a character.

    >>> bar(1.0, 2.0, width=4), bar(2.0, 2.0, width=4), bar(0.5, 4.0, width=4)
    ('██', '████', '▌')
    """
    eighths = round(8 * width * value / highest) if highest > 0 else 0
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()
