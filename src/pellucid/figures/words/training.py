"""What `pellucid train` says: data, plan, start, and at the end the report."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.charts.panel import LABELS, TextCanvas, block_means
from pellucid.figures.tables import WIDTH, FittedLines, Part, indent
from pellucid.figures.words.answers import (
    answer_parts,
    describe_source,
    example_noun,
    guessing_costs,
    has_tokens,
    side_sizes,
    task_words,
)
from pellucid.figures.words.counting import novelty_parts, parts_words
from pellucid.figures.words.inspection import STYLES, advice_words, finding_heading
from pellucid.figures.words.ladder import (
    accuracy_words,
    counted_words,
    earned_words,
    ladder_table,
    plain_ladder,
    trees_words,
    validation_table,
    validation_words,
)
from pellucid.figures.words.notation import (
    count_of,
    cut_end,
    duration,
    join_words,
    loss_unit_words,
    loss_words,
    metric_words,
    percent,
    rough,
)
from pellucid.figures.words.notes import fill_sentence, note_sentences, plain_with_notes
from pellucid.figures.words.splitting import choice_sentences, dev_sentence, leak_words
from pellucid.records import (
    WORTH_GROWING,
    DataFacts,
    Ending,
    Evaluation,
    ForecastSpan,
    InitialLoss,
    Ladder,
    NetworkFacts,
    Plan,
    Resumption,
    Separability,
    Statement,
    TrainingReport,
    Verdict,
)

# What a configuration has from the data, which are told before it.
GIVEN = {"vocab_size", "numbers", "categories", "outputs", "longest_source", "longest_target"}
USUAL_LOSS = "cross-entropy"
MOST_NAMED = 3  # steps in a sentence
WIDEST, LEAST_BESIDE, NARROWEST = 64, 32, 16  # letters of a picture; with words beside it
# A trial of some steps does not tell: on 21 lists and texts that others made, 800 steps brought 1 to 50 times what the
# first 40 or 60 had, and on 8 of them these had made it worse.
BEFORE_TRAINING = "how far it will come is not known before it trains"
PLAN_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "size-by-data": "size {size}, because train has {n_train:,} {one}s",
        "size-by-time": "size {size}, because {larger} would see {epochs:.1f} epochs in this time",
        "rest-by-data": "{rest} of size {size}, because train has {n_train:,} {one}s; the other sizes as asked for",
        "rest-by-time": "{rest} of size {size}, because {larger} would see {epochs:.1f} epochs in this time; the other "
        "sizes as asked for",
        "sizes-own": "{rest} as the network has by itself: sizes were asked for, and none is guessed",
        "counting-scores": "{parameters:,} parameters without the scores that starting from counting takes, as --start "
        "scratch has",
        "sizes-given": "every size as asked for; none is guessed",
        "batch-limited": "a batch of {batch_size:,} in place of {asked:,}: train has no more",
        "pace": "{milliseconds:.3g} ms a step, measured with {threads} thread{s}; {epochs:.1f} epochs",
        "batch-by-time": "a batch of {batch_size:,}, so that there is time for {steps:,} steps",
        "few-steps": "only {steps:,} steps fit; {wanted:,} would take {minutes:.1f} minutes",
        "epochs-at-first": "the time would allow {steps:,} steps; {epochs:.3g} epochs are planned at first, fewer if "
        "dev rises, more as long as it falls",
        "epochs-limited": "the time would allow {steps:,} steps; {epochs:.3g} epochs are planned, fewer if dev rises",
        "epochs-limited-on-train": "the time would allow {steps:,} steps; {epochs:.3g} epochs are planned",
        "folds": "after it, cross-validation over {folds} parts",
        "folds-by-time": "half of the time is left for a cross-validation; without it there would be {steps:,} steps",
        "flat-loss": "{loss} of probabilities: where the true class has {p:g}, {part:.2g} as steep as cross-entropy",
        "dropout": "dropout {dropout:g}, because everything is seen {epochs:.1f} times",
        "threads": "{several:.3g} ms a step with {threads} threads and {one:.3g} with one, by trial steps",
        "device": "on {device}",
        "processes": "every batch is shared by {processes} processes",
        "processes-shard": "batches, weights, gradients and optimizer are divided over {processes} processes",
        "shard-optimizer": "{optimizer}, because Muon needs whole matrices",
        "precision-faster": "bf16, because a step takes {half:.3g} ms with it and {full:.3g} without",
        "precision-slower": "fp32, because a step takes {half:.3g} ms with bf16 and {full:.3g} without",
        "compile-pays": "compiled: {compiled:.3g} ms a step in place of {plain:.3g} saves {saved:.0f} s, and compiling "
        "takes {seconds:.0f}",
        "compile-waste": "not compiled: {compiled:.3g} ms a step in place of {plain:.3g} would save {saved:.0f} s, and "
        "compiling takes {seconds:.0f}",
        "compile-untried": "not compiled, nor tried: steps twice as fast would save {at_most:.0f} s, and compiling "
        "takes {least:.0f} or more",
    }
)


def data_lines(data: DataFacts) -> list[str]:
    """What was read, its sides, and its symbols or what is to be foretold of it."""
    lines = [
        describe_source(data.description, data.kind, data.is_file),
        "; ".join([f"{side} {held}" for side, held in side_sizes(data).items()]),
    ]
    lines += [f"reads {part}" for part in data.about]
    if has_tokens(data):
        lines.append(
            f"{count_of(data.vocab_size, 'symbol')} ({data.tokens}); "
            f"guessing costs {guessing_costs(data.vocab_size)} nats a token"
        )
    else:
        lines.append(task_words(data))
    return [printable(line) for line in [*lines, *[f"note: {note}" for note in data_notes(data)]]]


def data_notes(data: DataFacts) -> list[str]:
    """What to know of the data before they are learned from: what gives the target away, how rows were divided."""
    return [*map(leak_words, data.leaks), *split_notes(data), *note_sentences(data.notes)]


def split_notes(data: DataFacts) -> list[str]:
    """How the examples were divided and why, where that is worth a word."""
    dev = [dev_sentence(data.dev_of_train)] if data.dev_of_train else []
    return [*(choice_sentences(data.split, example_noun(data.kind)) if data.split else []), *dev]


def plan_lines(plan: Plan, network: NetworkFacts) -> list[str]:
    """The network, the steps, the optimizer, and why they were chosen."""
    config = config_words({name: value for name, value in network.config.items() if name not in GIVEN})
    rate = f"learning rate {rough(plan.learning_rate)}" + (
        f", {rough(plan.matrix_learning_rate)} for matrices" if plan.matrix_learning_rate else ""
    )
    takes = f", about {duration(plan.seconds)}" if plan.seconds else ""
    lines = [
        f"{network.name}, {count_of(network.parameters, 'parameter')}" + (f": {config}" if config else ""),
        f"{count_of(plan.steps, 'step')} of {plan.batch_size:,}{takes}; {plan.optimizer}, {rate}, "
        f"{count_of(plan.warmup, 'warmup step')}, then {plan.schedule}",
        f"seed {plan.seed}, {count_of(plan.threads, 'thread')}" + " for each process" * (plan.processes > 1),
        *[f"{name}: {says}" for name, says in goal_facts(plan)],
        *map(plan_reason, plan.reasons),
        BEFORE_TRAINING,
    ]
    return [printable(line) for line in lines]


def config_words(config: Mapping[str, object]) -> str:
    """
    >>> config_words({"width": 8, "channels": [8, 16], "norm": "layer"})
    'width 8, channels (8, 16), norm layer'
    """
    written = {
        name: f"({', '.join([str(each) for each in value])})" if isinstance(value, list | tuple) else str(value)
        for name, value in config.items()
    }
    return ", ".join([f"{name} {value}" for name, value in written.items()])


def goal_facts(plan: Plan) -> list[tuple[str, str]]:
    """What is made small, what is added to it and what is done to the images, where it is not the usual.

    >>> plan = Plan(4, 2, 3, "adamw", 0.01, 0, 0, 0, 0, 0, "linear", 2, 2, 2, 4, 1, 0)
    >>> goal_facts(plan._replace(loss="hinge", penalty="l2", strength=0.001, shift=1))
    [('loss', 'hinge'), ('penalty', 'l2 of the weights, times 0.001'), ('images', 'moved at random by up to 1 pixel')]
    """
    found = [("loss", plan.loss)] if plan.loss != USUAL_LOSS else []
    if plan.class_weights != "none":
        found.append(("class weights", plan.class_weights))
    if plan.penalty:
        found.append(("penalty", f"{plan.penalty} of the weights, times {rough(plan.strength)}"))
    if plan.shift:
        found.append(("images", f"moved at random by up to {count_of(plan.shift, 'pixel')}"))
    return found


def plan_facts(plan: Plan) -> list[tuple[str, str]]:
    """The plan in words and numbers."""
    rate = rough(plan.learning_rate) + (
        f", and {rough(plan.matrix_learning_rate)} for matrices" if plan.matrix_learning_rate else ""
    )
    clip = f"at a norm of {rough(plan.clip)}" if plan.clip else "not at all"
    context = f", with a context of {plan.context:,}" if plan.context else ""
    part = f", on about {plan.evaluated:,} predictions of dev" if plan.evaluated else ""
    found = [
        ("steps", f"{plan.steps:,}{replan_words(plan)}, each of {plan.batch_size:,}{context}"),
        ("optimizer", f"{plan.optimizer}, learning rate {rate}, weight decay {rough(plan.weight_decay)} on matrices"),
        ("schedule", f"{count_of(plan.warmup, 'warmup step')}, then {plan.schedule}"),
        ("clipped", clip),
        *goal_facts(plan),
        ("looked at", f"every {plan.probe_every:,} steps; evaluated every {plan.evaluate_every:,}{part}"),
    ]
    return [*found, *[("because", plan_reason(reason)) for reason in plan.reasons]]


def plan_reason(reason: Statement) -> str:
    """Why a plan is what it is.

    >>> plan_reason(Statement("size-by-data", {"size": "tiny", "n_train": 2000, "one": "token"}))
    'size tiny, because train has 2,000 tokens'
    """
    facts = {**reason.facts, "s": "" if reason.facts.get("threads") == 1 else "s"}
    if "rest" in facts:
        facts["rest"] = _rest_words(facts["rest"])
    return fill_sentence(PLAN_REASONS, Statement(reason.kind, facts))


def _rest_words(rest: object) -> str:
    """Settings that were not asked for, with their values where they are known.

    >>> _rest_words({"context": 3, "embedding": 10}), _rest_words(["width"])
    ('context 3 and embedding 10', 'width')
    """
    if isinstance(rest, Mapping):
        return join_words([f"{name} {value}" for name, value in rest.items()] or ["nothing"])
    return join_words(list(map(str, rest)) or ["nothing"]) if isinstance(rest, list | tuple) else str(rest)


def resumption_lines(resumed: Resumption) -> list[str]:
    """Where a stopped run goes on, and a note on everything that is not as it was.

    >>> resumption_lines(Resumption(36, threads=(1, 2)))
    ['goes on after step 36', 'note: 2 threads in place of 1: the last bits may differ']
    """
    notes = []
    if resumed.new_data:
        notes.append(f"new data: {resumed.new_data}")
    if resumed.processes:
        before, now = resumed.processes
        notes.append(f"{now} process{'es' * (now != 1)} in place of {before}: the last bits may differ")
    if resumed.device:
        notes.append(f"on {resumed.device[1]} in place of {resumed.device[0]}: the last bits may differ")
    if resumed.threads:
        notes.append(f"{resumed.threads[1]} threads in place of {resumed.threads[0]}: the last bits may differ")
    if resumed.has_other_versions:
        notes.append("made with other versions or on another machine, where equal bits are not promised")
    if not resumed.step:
        notes.append("it was stopped before its first checkpoint, so it begins again")
    if resumed.unused:
        unused = "".join(f"step {step} is not used: {why}; " for step, why in resumed.unused.items())
        notes.append(f"{unused}going on from step {resumed.step}")
    return [f"goes on after step {resumed.step:,}", *[f"note: {note}" for note in notes]]


def start_words(start: InitialLoss) -> str:
    """The loss before the first step, beside what it should be.

    >>> start_words(InitialLoss(1.3863, 1.3863, 1.04, True, "unsure", vocab_size=4))
    '1.3863 nats, and ln 4 = 1.3863: the network starts without opinions.'
    """
    if start.start == "not finite":
        return f"The loss is {start.measured} before the first step: look for what is not finite in data and weights."
    if start.start == "counted":
        return f"Nothing is trained; {guessing_costs(start.vocab_size)} is what guessing costs."
    entropy = f"{start.label_entropy:.4f}"
    if not start.vocab_size:
        costs = f"0 for everything costs {start.uniform:.4f} and the mean of train {entropy}"
        far = "far from 0. Shrink the last layer's first weights" if start.start == "sure and wrong" else "near 0"
        return f"{start.measured:.4f}, where {costs}: it starts {far}."
    beside = f"{start.measured:.4f} nats, and {guessing_costs(start.vocab_size)}"
    if start.expected is not None:
        beside += f"; first weights of this kind cost {start.expected:.4f} on average"
    return {
        "from counting": f"{beside}: the network starts where counting ends.",
        "from a run": f"{beside}: the network starts with what it learned in another run.",
        "unsure": f"{beside}: the network starts without opinions.",
        "sure and wrong": f"{beside}: it starts sure and wrong. Shrink the last layer's first weights.",
        "informed": f"{beside}: it starts with opinions that help; the targets' frequencies alone give {entropy}.",
        "too informed": f"{beside}, but the targets alone have {entropy}: it starts knowing more than their "
        "frequencies tell. Were the weights trained before, or does it see what it should predict?",
    }[start.start]


def ending_words(ending: Ending, evaluations: Sequence[Evaluation], plan: Plan, seconds: float = 0.0) -> str:
    """Why a training ended. seconds: that it took, where a plan without a clock does not care.

    >>> plan = Plan(100, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "linear", 5, 5, 5, 5, 1, 1)
    >>> ending_words(Ending("budget", 100, 80), [], plan)
    'All 100 steps of the plan are done.'
    """
    if ending.reason == "counted":
        return "It was counted once: there are no steps."
    kept = next((one for one in evaluations if one.step == ending.best_step), None)
    last = next((one for one in evaluations if one.step == ending.step), None)
    if ending.reason == "budget" or kept is None or last is None:
        return _done_words(plan, kept, last, seconds)
    if ending.reason == "over-fit":
        return (
            f"It over-fits: dev rose to {last.dev:.4f} from its best, {kept.dev:.4f} at step {kept.step:,}, "
            f"while train fell from {kept.train:.4f} to {last.train:.4f}."
        )
    ahead = f"would lower it by at most {ending.gain:.2g}" if ending.gain else "would earn nothing"
    left = f"the {plan.steps - last.step:,} steps left {ahead} at the pace seen"
    side = "train" if math.isnan(last.dev) else "dev"
    return f"A plateau: {side} has stood at {last.judged:.4f}; {left}."


def _done_words(plan: Plan, kept: Evaluation | None, last: Evaluation | None, seconds: float) -> str:
    """That all steps are done, and why no more were planned where they could have been.

    >>> plan = Plan(600, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "linear", 5, 5, 5, 5, 1, 1, available=90.0)
    >>> _done_words(plan, Evaluation(290, 2.0, 2.1), Evaluation(600, 1.9, 2.2), 6.0)
    'All 600 steps of the plan are done. Dev has not fallen since step 290, so no more were planned.'
    >>> _done_words(plan, Evaluation(600, 1.9, 2.0), Evaluation(600, 1.9, 2.0), 88.0)
    'All 600 steps of the plan are done. There was no time for more.'
    """
    done = f"All {plan.steps:,} steps of the plan are done."
    if not plan.available or kept is None or last is None or math.isnan(last.dev):
        return done
    if plan.available - seconds < WORTH_GROWING * seconds:
        return f"{done} There was no time for more."
    if kept.step < last.step:
        return f"{done} Dev has not fallen since step {kept.step:,}, so no more were planned."
    if kept.metric == 1.0:
        return f"{done} Every answer on dev is right, so no more were planned."
    return f"{done} Dev was at its lowest at the last of them."


def verdict_words(verdict: Verdict, evaluations: Sequence[Evaluation], ladder: Ladder) -> str:
    """Why a network is called so, from its curves and the simple models beside it, and what to try."""
    if not evaluations:
        return "It was never evaluated."
    kept, last = min(evaluations, key=lambda one: one.judged), evaluations[-1]
    if ladder.measure.side == "train":
        return _untested_words(verdict, kept, last, ladder)
    # It was judged by more of both sides than on the way, where the ladder has it.
    judged = next((rung for rung in ladder.rungs if not rung.is_counted), kept)
    gap = judged.dev - judged.train
    at_best = f"at step {kept.step:,} dev is {judged.dev:.4f} and train {judged.train:.4f}"
    is_counting = ladder.measure.simple == "counting"
    rose = last.dev - kept.dev
    at_rest = f"dev ended {rose:.4f} above its best" if rose > 0 else "dev was at its lowest at the end"
    too = f", and for the simplest model dev is {verdict.harder:.4f} harder than train too" if verdict.harder else ""
    because, try_next = {
        "dev rose": (
            f"dev was lowest at step {kept.step:,} with {kept.dev:.4f} and then rose to {last.dev:.4f}, while train "
            f"fell from {kept.train:.4f} to {last.train:.4f}; the weights of the best step were kept",
            f"Train about {max(1, kept.step):,} steps, or give it more data, dropout or a smaller size",
        ),
        "by heart": (
            f"{at_best}: {gap:.4f} below, so much of train is known by heart",
            "Give it more data, dropout or a smaller size",
        ),
        "all right": (
            f"{at_best}, and every answer on dev is right: what is left of the loss is how sure it is",
            "Try it on something harder",
        ),
        "rest is random": (
            f"{at_best}, where what was drawn at random costs {verdict.random_loss:.4f} a token by itself: next to "
            "nothing else is left to learn",
            "Try it on something harder",
        ),
        "solved": (f"{at_best}: next to nothing is left to learn", "Try it on something harder"),
        "still falling": (
            f"dev fell by {verdict.fell:.4f} over the last tenth of the run, to {last.dev:.4f}, "
            "and had not come to rest",
            "Train longer: more minutes or more steps",
        ),
        "behind simple models": (
            f"{at_best}{behind_words(ladder)}",
            f"Give it {'more context, ' * is_counting}a larger size or more time; or search its learning rate with "
            "pellucid rate",
        ),
        "nothing by heart": (
            f"{at_best}, {abs(gap):.4f} apart: nothing was learned by heart, so there is room to learn more",
            "Choose a larger size or train longer",
        ),
        "same answer": (
            f"{at_best}, but it says the same of every example of dev, whatever it reads",
            "Give it a larger size or more time; or search its learning rate with pellucid rate",
        ),
        "nothing learned": (
            f"no weights did better on all of dev than the first ones, with {evaluations[0].dev:.4f}; those were kept",
            "Give it more data, or another learning rate: pellucid rate searches one",
        ),
        "at rest": (
            f"{at_best}, {gap:.4f} apart{too}, and {at_rest}",
            "To go on, give it more data, or a larger size with dropout",
        ),
    }[verdict.reason]
    return f"{because}. {try_next}."


def _untested_words(verdict: Verdict, kept: Evaluation, last: Evaluation, ladder: Ladder) -> str:
    """What is known of a network that learned from all there is: how it does on that, and no more.

    >>> from pellucid.records import Measure
    >>> seen = Evaluation(300, 0.001, math.nan, 1.0)
    >>> ladder = Ladder("xor", (), measure=Measure(metric="accuracy", side="train"))
    >>> print(_untested_words(Verdict("not known", "nothing held out"), seen, seen, ladder))
    at step 300 train is 0.0010, with 100 % of accuracy, and nothing was held out to tell learning from learning by
    heart. Give it more examples.
    """
    metric = f", with {metric_words(ladder.measure.metric, kept.metric)} of {ladder.measure.metric}"
    at_best = f"at step {kept.step:,} train is {kept.train:.4f}{metric}"
    if verdict.reason == "same answer":
        try_next = "Give it a larger size or more time; or search its learning rate with pellucid rate"
        return f"{at_best}, but it says the same of every example, whatever it reads. {try_next}."
    if verdict.reason == "nothing learned":
        return f"no weights did better than the first ones, with {kept.train:.4f}; at the end it was {last.train:.4f}."
    memory = "and nothing was held out to tell learning from learning by heart"
    return f"{at_best}, {memory}. Give it more examples."


def behind_words(ladder: Ladder) -> str:
    """How much more the best simple model reaches, by what the ladder is judged by.

    >>> from pellucid.records import Measure, Rung
    >>> network = Rung("mlp", False, 9, 0.1, 0.4, None, math.nan, 1.0, 1.0, metric=0.5)
    >>> simple = Rung("centroid", True, 9, 0.1, math.nan, None, math.nan, 1.0, None, metric=0.9)
    >>> behind_words(Ladder("x", (network, simple), measure=Measure(metric="accuracy")))
    ', with 50.00 % of accuracy where centroid has 90.00 %'
    """
    best = ladder.best_count
    network = next((rung for rung in ladder.rungs if not rung.is_counted), None)
    metric = ladder.measure.metric
    if best is None:
        return ", and simple models reach more"
    if metric and network is not None and ladder.gap(network) < 0:
        has = f"{best.name} has {metric_words(metric, best.metric)}"
        return f", with {metric_words(metric, network.metric)} of {metric} where {has}"
    is_counting = ladder.measure.simple == "counting"
    return f", where {ladder.measure.simple} alone reach{'es' * is_counting} {ladder.loss(best):.4f}"


def fit_words(report: TrainingReport) -> str:
    """Why a run has its verdict; of a model that counts, what it keeps and how much of train it knows by heart."""
    if not report.is_counted:
        return verdict_words(report.verdict, report.evaluations, report.ladder)
    own = report.rung
    costs = f"train costs {loss_words(own.train)} and dev {loss_words(own.dev)} nats a token"
    return f"it keeps {count_of(own.parameters, 'number')}; {costs}."


def separability_words(found: Separability, noun: str = "row") -> str:
    """Whether logistic regression could tell all of train right, and what that means for its loss.

    >>> print(separability_words(Separability(False, 4, 2, 0.7, 0.8, 0.693147, "steps", 0.01, 300, 0.1)))
    No hyperplane tells the classes of train apart: a weighted mean of rows of one class is also one of rows of others.
    So logistic regression, whatever its weights, gets at most 3 of 4 rows right, and its loss stays at 0.6931 or above.
    >>> print(separability_words(Separability(True, 50, 50, 0.12, 0.05, 0.0, "steps", 0.0, 300, 0.0)))
    These weights tell all 50 rows of train right, so their loss has no minimum: it is 0.1200 here, 0.0500 with twice
    the weights, and goes to 0 as they grow. What decided where they stopped is the number of steps, 300, alone: there
    is no weight decay.
    """
    rows = count_of(found.n_rows, noun)
    if found.is_separable is None:
        return f"Whether a hyperplane can tell all {rows} of train apart is not known: to find out would take too long."
    if not found.is_separable:
        floor = f", and its loss stays at {found.floor:.4f} or above" if found.floor >= 5e-5 else ""
        return (
            f"No hyperplane tells the classes of train apart: a weighted mean of {noun}s of one class is also one of "
            f"{noun}s of others. So logistic regression, whatever its weights, gets at most {found.n_rows - 1:,} of "
            f"{rows} right{floor}."
        )
    steps, taken = f"{found.steps:,}", percent(found.decayed)
    decay = f"the weight decay of {rough(found.strength)}"
    decides = {
        "weight decay": f"{decay}, which by itself takes {taken} off them in {steps} steps",
        "penalty": f"the penalty, of strength {rough(found.strength)}",
        "steps": f"the number of steps, {steps}"
        + (
            f"; {decay} by itself takes {taken} off them in that time"
            if found.strength
            else ", alone: there is no weight decay"
        ),
    }[found.decided_by]
    stopped = f"What decided where they stopped is {decides}."
    if found.n_right < found.n_rows:
        return (
            f"Some weights tell all {rows} of train right, and these {found.n_right:,}: the loss, {found.loss:.4f} "
            f"here, has no minimum, and goes to 0 as such weights grow. {stopped}"
        )
    return (
        f"These weights tell all {rows} of train right, so their loss has no minimum: it is {found.loss:.4f} here, "
        f"{found.doubled:.4f} with twice the weights, and goes to 0 as they grow. {stopped}"
    )


def plain_report(report: TrainingReport) -> dict[str, object]:
    """The run as what JSON can hold: all but what was logged step by step, which stands in the run's own files."""
    names = [field.name for field in dataclasses.fields(report) if field.name not in ("health", "command", "steps")]
    plain = {name: plain_with_notes(getattr(report, name)) for name in names}
    words = {
        "start": start_words(report.start),
        "ending": ending_words(report.ending, report.evaluations, report.plan, report.rung.seconds),
        "verdict": fit_words(report),
        "forecast": forecast_words(report),
        **(
            {"separability": separability_words(report.separability, example_noun(report.data.kind))}
            if report.separability
            else {}
        ),
    }
    return {
        **plain,
        "steps": len(report.steps),
        "ladder": plain_ladder(report.ladder),
        "sentence": headline_words(report),
        "words": words,
    }


def report_parts(report: TrainingReport) -> Iterator[Part]:
    """Everything that is said at the end of a training."""
    yield ladder_table(report.ladder)
    if validated := report.ladder.cross_validation:
        yield Text("")
        yield validation_table(validated)
        yield Text(validation_words(validated), "dim")
    elif report.plan.folds:
        yield Text("There was no time left for the cross-validation.", "dim")
    if loss_picture(report):
        yield Text("")
        yield FittedLines(lambda width: loss_picture(report, width))
    yield Text("")
    yield Text(ending_words(report.ending, report.evaluations, report.plan, report.rung.seconds))
    yield Text(f"{report.verdict.name}: {fit_words(report)}")
    if report.separability:
        yield Text(separability_words(report.separability, example_noun(report.data.kind)))
    if report.plan.evaluated:
        part = f"{report.plan.evaluated:,} of its {report.data.n_tokens['dev']:,}"
        yield Text(f"While it trained, dev was measured on about {part} predictions; the table has more of it.", "dim")
    if words := accuracy_words(report.ladder, report.rung):
        yield Text(words)
    if report.parts:
        yield Text(parts_words(report.parts))
    for finding in report.findings:
        if finding.severity != "sound":
            yield Text(printable(f"{finding.severity}: {finding_heading(finding)}"), STYLES.get(finding.severity, ""))
            yield Text(printable(f"  {advice_words(finding)}"), "dim")
    if report.samples:
        yield Text("")
        yield from novelty_parts(tuple(report.samples))
    if report.answers:
        yield Text("")
        yield from answer_parts(report.answers, report.data, report.network.name, report.ladder.measure.metric)
    yield Text("")
    yield Text(printable(headline_words(report)), "bold")
    if trees := trees_words(report.ladder):
        yield Text(printable(trees), "bold")
    yield Text("")
    yield Text(f"The run is in {printable(report.folder)}. Now you can type or open")
    lines = [*next_commands(report), f"{report.folder}/report.html"]
    yield indent(Text("\n".join([printable(line) for line in lines])))


def headline_words(report: TrainingReport) -> str:
    """What a run is worth, in one or two sentences: what it earns, and what its budget did."""
    if report.is_counted:
        return counted_words(report.ladder, report.rung)
    said = [earned_words(report.ladder), fine_tuning_words(report), budget_words(report), forecast_words(report)]
    return " ".join(filter(None, said))


def fine_tuning_words(report: TrainingReport) -> str:
    """What was earned over the run that the training began from; "" where it began from none."""
    began = report.fine_tuning
    if began is None:
        return ""
    own = report.rung
    test = f"; on test {own.test:.4f} in place of {began.test:.4f}" if own.test is not None and began.test else ""
    sides = [f"{_signed(one.low)} to {_signed(one.high)} on {one.side}" for one in began.gains]
    sure = f" (with 95 % confidence {' and '.join(sides)})" if sides else ""
    return (
        f"Over its start, {began.run} as it was, it earns {_signed(began.dev - own.dev)} nats a token on dev: "
        f"{own.dev:.4f} in place of {began.dev:.4f}{test}{sure}."
    )


def _signed(nats: float) -> str:
    return f"{nats:+.4f}".replace("-", "−")


def budget_words(report: TrainingReport) -> str:
    """What the time was spent on: steps, epochs, and the share of the time that went into steps, as a sentence."""
    epochs = sum(step.n_tokens for step in report.steps) / max(1, report.data.n_tokens["train"])
    done = f"It made {count_of(report.ending.step, 'step')}{replan_words(report.plan)}, {epochs:.1f} epochs"
    if not report.timings or not report.timings[-1].stepping:
        return f"{done}."
    last = report.timings[-1]
    share = percent(last.stepping / max(last.seconds, 1e-9))
    return f"{done}, in {duration(last.seconds)}, of which {share} went into them."


FORECAST_UNKNOWN: Mapping[str, str] = MappingProxyType(
    {
        "over-fit": "More steps alone would hardly help: dev was at its lowest long before the end, and rose.",
        "nothing learned": "What more steps would bring is not known: these brought nothing that dev could tell.",
        "nothing held out": "What more steps would bring is not known: nothing was held out to measure it on.",
        "few evaluations": "What more steps would bring is not known: dev was measured too seldom.",
        "not finite": "What more steps would bring is not known: not all losses are numbers.",
    }
)


def forecast_words(report: TrainingReport) -> str:
    """What more steps would bring, and how many it takes to pass the best simple model or to gain a little more."""
    found, best = report.forecast, report.ladder.best_count
    if found is None:
        return ""
    if found.unknown:
        return FORECAST_UNKNOWN.get(found.unknown, "not known")
    unit = f"of {found.unit}" if found.unit else loss_unit_words(report.ladder.measure)
    gain = f"By its own curve, twice as many steps would bring about {found.doubled.usual:.4f} {unit} more on dev"
    says = f"{gain} (nine times in ten between nothing and {found.doubled.high:.4f})"
    if math.isnan(found.wanted):
        name = best.name if best else report.ladder.measure.simple
        return f"{says}; how many it takes to pass {name} is not known."
    times = times_words(found.times, report.rung.seconds)
    if found.goal == "pass" and best is not None:
        return f"{says}; to pass {best.name}, {found.wanted:.4f} away, takes {times}."
    return f"{says}; {found.wanted:.2g} more takes {times}."


def times_words(times: ForecastSpan, seconds: float) -> str:
    """How many times the steps, with the time that takes; seconds: what the run took.

    >>> from pellucid.records import ForecastSpan
    >>> times_words(ForecastSpan(1.5, 4.0, math.inf), 60.0)
    'about 4.0 times as many, 4 min (at least 1.5 times; at most is not known)'
    >>> times_words(ForecastSpan(3.0, math.inf, math.inf), 60.0)
    'more than 8 times as many, if it comes at all (at least 3.0 times, 3 min)'
    >>> times_words(ForecastSpan(math.inf, math.inf, math.inf), 60.0)
    'more than 8 times as many, if it comes at all'
    """
    far = "more than 8 times as many, if it comes at all"
    if math.isinf(times.low):
        return far
    if math.isinf(times.usual):
        return f"{far} (at least {times.low:.1f} times, {duration(times.low * seconds)})"
    usual = f"about {times.usual:.1f} times as many, {duration(times.usual * seconds)}"
    return f"{usual} (at least {times.low:.1f} times; at most is not known)"


def replan_words(plan: Plan) -> str:
    """How many steps were planned, where that was changed on the way, and why; else nothing.

    >>> from pellucid.records import Replan
    >>> plan = Plan(900, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "linear", 5, 5, 5, 5, 1, 1)
    >>> replan_words(plan.changed_by(Replan(340, 500)))
    ' (900 were planned, and changed on the way to end in time)'
    >>> replan_words(plan.changed_by(Replan(540, 1800, "dev")).changed_by(Replan(1080, 2000, "dev")))
    ' (900 were planned, and more after steps 540 and 1,080, where dev was still falling)'
    """
    if not plan.replans:
        return ""
    grown = [f"{change.step:,}" for change in plan.replans if change.why == "dev"]
    shown = grown if len(grown) <= MOST_NAMED else [*grown[:MOST_NAMED], f"{len(grown) - MOST_NAMED} more"]
    says = (
        [f"more after step{'s' * (len(grown) > 1)} {join_words(shown)}, where dev was still falling"] if grown else []
    )
    if len(grown) < len(plan.replans) - 1:
        says.append("changed on the way to end in time")
    return f" ({plan.replans[0].steps:,} were planned, and {'; and '.join(says)})"


def growth_words(plan: Plan) -> str:
    """What is said where a plan grows, while it trains; "" where its last change was no growth.

    >>> from pellucid.records import Replan
    >>> plan = Plan(900, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "linear", 5, 5, 5, 5, 1, 1)
    >>> growth_words(plan.changed_by(Replan(540, 1800, "dev")))
    'step 540: dev is still falling, so 1,800 steps are planned in place of 900'
    """
    before, change = plan.replans[-2:] if plan.replans else (None, None)
    if before is None or change is None or change.why != "dev":
        return ""
    says = f"dev is still falling, so {change.steps:,} steps are planned in place of {before.steps:,}"
    return f"step {change.step:,}: {says}"


def next_commands(report: TrainingReport) -> list[str]:
    """What can be done with the run, as commands."""
    if report.answers or report.ladder.measure.metric:
        source = report.answers.examples[0].what if report.answers and report.answers.examples else ""
        if report.data.kind == "pairs" and source.isascii() and source.isalnum():
            return [f"pellucid predict {report.name} --text {source}"]
        return [f"pellucid predict {report.name} FILE"]
    text = report.data.first[0] if report.data.kind == "list" and report.data.first else "some text"
    # A word of the data may hold anything; one that the shell would read otherwise is not put into a command.
    text = text if text.isalnum() else "emma" if report.data.kind == "list" else '"some text"'
    return [f"pellucid sample {report.name}", f"pellucid score {report.name} {text}"]


def loss_picture(report: TrainingReport, width: int = WIDTH) -> list[str]:
    """The loss on train and dev over the steps as a few lines of text, with the best simple model as a dotted rule.

    Where the words do not fit beside it, they stand below. Where nothing was held out, there is train alone.
    """
    finite = [evaluation for evaluation in report.evaluations if math.isfinite(evaluation.judged)]
    if len(finite) < 2 or len(report.steps) < 2:
        return []
    best = report.ladder.best_count
    # Beside a metric, the best of them need not have a loss; then there is no rule.
    rule = report.ladder.loss(best) if best else math.nan
    best = best if math.isfinite(rule) else None
    train = block_means([(step.step, step.loss) for step in report.steps], 128, least=4)[0]
    judged = [(evaluation.step, evaluation.judged) for evaluation in report.evaluations]
    losses = [loss for _, loss in [*train, *judged] if math.isfinite(loss)] + ([rule] if best else [])
    # Near the end is where it is decided; the first steps, far above, leave the picture.
    reach = max([finite[-1].judged, rule if best else finite[0].judged]) - min(losses)
    high = min(max(losses), min(losses) + max(4 * reach, 0.2))
    labels = [(finite[-1].judged, f"{report.ladder.measure.side} {finite[-1].judged:.4f}")]
    if best:
        labels.append((rule, f"{cut_end(best.name, 24)} {rule:.4f}"))
    beside = width - LABELS - 1 - max([len(words) for _, words in labels])
    canvas = TextCanvas(
        (0, report.steps[-1].step),
        (min(losses), max(high, min(losses) + 1e-9)),
        width=max(NARROWEST, min(WIDEST, beside if beside >= LEAST_BESIDE else width - LABELS)),
    )
    if best:
        canvas.across(rule)
    canvas.line(train)
    canvas.line(judged)
    last = f"{report.steps[-1].step:,} steps"
    below = " " * LABELS + "0".ljust(canvas.width - len(last)) + last
    if beside >= LEAST_BESIDE:
        return [*canvas.lines("{:.2f}".format, labels), below]
    return [*canvas.lines("{:.2f}".format), below, *[words for _, words in labels]]
