"""The tables and lists of a run's page. Every text goes through `safe`: nothing of the data is read as markup."""

import math
from collections.abc import Sequence

from pellucid.figures.charts.svg import safe
from pellucid.figures.words.formulas import cut
from pellucid.figures.words.ladder import has_test
from pellucid.figures.words.merits import gap_words, loss_unit, loss_words, metric_words, ranked
from pellucid.figures.words.numbers import counted, ended, lasting, rough
from pellucid.figures.words.samples import tally
from pellucid.figures.words.training_summary import advice, goal_facts
from pellucid.records import Finding, Ladder, NetworkFacts, Plan, Rung, Sample, SampledAt

LONGEST = 240  # letters of one item
LONGEST_TEXT = 1500  # of a sample of running text
MOST_ROWS = 400


def rows(headings: Sequence[str], body: Sequence[str], words: Sequence[int] = (0,)) -> str:
    """A table from its headings and its rows as HTML; the columns in `words` are flush left."""
    aligned = [' class="words"' * (place in words) for place in range(len(headings))]
    head = "".join([f"<th{side}>{safe(heading)}</th>" for side, heading in zip(aligned, headings, strict=True)])
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def ladder_rows(ladder: Ladder) -> str:
    """Every rung, the best on dev first."""
    measure = ladder.measure
    headings = ["model", *_reached_headings(ladder), "parameters", "time"]
    headings += [f"{measure.one}s a second", f"over {measure.simple}"]
    body = []
    for rung in ranked(ladder):
        speed = "" if rung.tokens_per_second is None else f"{rung.tokens_per_second:,.0f}"
        cells = [*_reached(ladder, rung), f"{rung.parameters:,}", lasting(rung.seconds), speed, gap_words(ladder, rung)]
        numbers = "".join([f"<td>{safe(cell)}</td>" for cell in cells])
        kind = "" if rung.is_counted else ' class="network"'
        body.append(f'<tr{kind}><th scope="row">{safe(rung.name)}</th>{numbers}</tr>')
    notes = "".join([f'<p class="quiet">{safe(note)}</p>' for note in ladder.notes])
    return f'{rows(headings, body)}<p class="quiet">{safe(_judged(ladder))}</p>{notes}'


def _reached_headings(ladder: Ladder) -> list[str]:
    metric, unit = ladder.measure.metric, loss_unit(ladder.measure)
    if metric:
        return [f"{metric} on dev", *["on test"] * has_test(ladder), f"dev, {unit}", "train"]
    return [f"dev, {unit}", "bits a character", "train", *["test"] * has_test(ladder)]


def _reached(ladder: Ladder, rung: Rung) -> list[str]:
    metric = ladder.measure.metric
    if metric:
        test = [metric_words(metric, rung.test_metric)] if has_test(ladder) else []
        return [
            metric_words(metric, rung.metric),
            *test,
            *[loss_words(loss, metric) for loss in (rung.dev, rung.train)],
        ]
    cells = [loss_words(rung.dev), f"{rung.bits_per_character:.3f}", loss_words(rung.train)]
    return [*cells, *([loss_words(rung.test)] if has_test(ladder) else [])]


def _judged(ladder: Ladder) -> str:
    measure = ladder.measure
    if not measure.metric:
        return (
            "One split, one measure: the mean over every predicted token of dev. “Over counting” is "
            "what a model earns over the best one that only counts."
        )
    return (
        f"One split, one measure: the {measure.metric} over the whole of dev, by which the models are ranked; the loss "
        f"beside it is in {measure.loss}. “Over {measure.simple}” is what a model earns over the best of them."
    )


def sample_rows(samples: tuple[Sample, ...]) -> str:
    """The last samples, each with how new it is."""
    if not samples[0].where:
        return "".join([_text(sample) for sample in samples])
    body = []
    for sample in samples:
        near = (
            "itself" if not sample.distance else f"{cut(sample.nearest, LONGEST)}, {counted(sample.distance, 'edit')}"
        )
        found = "new" if sample.where == "new" else f"in {sample.where}"
        text = (cut(sample.text, LONGEST) or "(empty)") + "…" * sample.is_cut
        body.append(
            f'<tr><th scope="row"><code>{safe(text)}</code></th><td>{sample.nats:.2f}</td>'
            f'<td class="words">{safe(found)}</td><td class="words">{safe(near if sample.nearest else "")}</td>'
            f'<td class="words"><code>{safe(cut(sample.copied, LONGEST))}</code></td></tr>'
        )
    made = rows(["sample", "nats", "found", "nearest in train", "longest part copied"], body, words=(0, 2, 3, 4))
    return f'{made}<p class="quiet">{safe(tally(samples))}.</p>'


def _text(sample: Sample) -> str:
    copied = "whether it was copied is not known"
    if sample.copied:
        copied = f"the longest part copied from train has {counted(len(sample.copied), 'letter')}"
    mean = f"{sample.nats / max(1, sample.n_tokens):.4f} nats a token"
    return f'<pre>{safe(cut(sample.text, LONGEST_TEXT))}</pre><p class="quiet">{safe(f"{mean}; {copied}")}</p>'


def sampled_rows(sampled: tuple[SampledAt, ...], kind: str, heading: str = "samples") -> str:
    """What the network made, or answered, while it learned, from the first look on."""
    body = []
    for at in sampled:
        if kind == "text":
            made = "".join([f"<pre>{safe(cut(text, LONGEST_TEXT // 3))}</pre>" for text in at.texts])
        else:
            made = chips([text or "(empty)" for text in at.texts])
        body.append(f'<tr><th scope="row">{at.step:,}</th><td class="words wrap">{made}</td></tr>')
    return rows(["step", heading], body, words=(0, 1))


def findings_list(findings: tuple[Finding, ...]) -> str:
    """What was seen, what it means, and what to try."""
    if not findings:
        return '<p class="quiet">Nothing was found that would need a word.</p>'
    items = []
    for finding in findings:
        at = f" at step {finding.step:,}" if finding.step else ""
        kind = finding.severity if finding.severity in ("broken", "suspicious", "note", "sound") else "note"
        items.append(
            f'<li class="{kind}"><p><b>{safe(finding.severity.capitalize())}</b>, {safe(finding.where + at)}: '
            f'{safe(ended(finding.seen))}</p><p class="quiet">{safe(advice(finding))}</p></li>'
        )
    return f'<ul class="findings">{"".join(items)}</ul>'


def plan_facts(plan: Plan) -> list[tuple[str, str]]:
    """The plan in words and numbers."""
    rate = rough(plan.learning_rate) + (
        f", and {rough(plan.matrix_learning_rate)} for matrices" if plan.matrix_learning_rate else ""
    )
    clip = f"at a norm of {rough(plan.clip)}" if plan.clip else "not at all"
    context = f", with a context of {plan.context:,}" if plan.context else ""
    found = [
        ("steps", f"{plan.steps:,}, each of {plan.batch_size:,}{context}"),
        ("optimizer", f"{plan.optimizer}, rate {rate}, weight decay {rough(plan.weight_decay)} on matrices"),
        ("rate", f"{counted(plan.warmup, 'step')} of warm-up, then {plan.schedule}"),
        ("clipped", clip),
        *goal_facts(plan),
        ("looked at", f"every {plan.probe_every:,} steps; evaluated every {plan.evaluate_every:,}"),
    ]
    return [*found, *[("because", reason) for reason in plan.because]]


def parameter_rows(network: NetworkFacts) -> str:
    """Every parameter with its shape and its size."""
    body = []
    for path, shape in network.layers[:MOST_ROWS]:
        written = " × ".join([f"{size:,}" for size in shape]) or "one number"
        body.append(
            f'<tr><th scope="row"><code>{safe(path)}</code></th><td>{safe(written)}</td>'
            f"<td>{math.prod(shape):,}</td></tr>"
        )
    left_out = len(network.layers) - MOST_ROWS
    more = f'<p class="quiet">and {left_out:,} more</p>' if left_out > 0 else ""
    return rows(["parameter", "shape", "numbers"], body) + more


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and what they are."""
    return (
        f'<dl class="facts">{"".join([f"<dt>{safe(name)}</dt><dd>{safe(value)}</dd>" for name, value in pairs])}</dl>'
    )


def chips(texts: Sequence[str]) -> str:
    """Short texts side by side."""
    items = "".join([f'<li class="chip">{safe(cut(text, LONGEST))}</li>' for text in texts])
    return f'<ul class="chips">{items}</ul>'
