"""Cross-validation of a small table: every row is answered by models that did not learn from it.

Of a few hundred rows the dev side has a few dozen, and no interval over them tells two models apart. So the rows are
divided into parts; for each, the simple models and a network like the one that is kept learn from all the others. The
networks follow the same plan and stop at the step whose weights were kept: nothing is known of a part before it is
asked but that one number, which the rows of dev chose. What is learned here is thrown away.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pellucid.models.contracts import ExampleModel
from pellucid.records import TREES, CrossValidation, Gain, Importance, ModelMetrics
from pellucid.training.callbacks import Callbacks
from pellucid.training.loop import steps
from pellucid.training.tasks import metrics
from pellucid.training.tasks.example_answers import (
    class_metrics,
    class_probabilities,
    in_units,
    intervals_of,
    number_metrics,
)
from pellucid.training.tasks.examples import ExampleTask
from pellucid.training.tasks.importances import importances_of, permutation_effects
from pellucid.training.tasks.simple_models import fit_simple_models
from pellucid.training.trainer import TrainingState, build_training

SIDE = "cross-validation"  # what a gain over all parts is called, in the place of dev or test
FEWEST_PARTS = 3
Floats = npt.NDArray[Any]


class _Part(NamedTuple):
    """What each model said of one part, and what is true of it, in the units of the target."""

    answers: dict[str, Floats]  # scores of classes, or numbers; the network's first
    probabilities: Floats | None  # of the network
    truth: Floats
    effects: dict[str, Floats]  # of each column, what the network's merit of each row loses without it


class Budget(NamedTuple):
    """What a cross-validation may take. By default it has all the time there is."""

    ends: float = math.inf  # by the monotonic clock
    each: float = 0.0  # seconds that a part is expected to take

    def parts_within(self, wanted: int) -> int:
        """As many parts as there is time for: as wanted, or a few, or none."""
        n = int(max(0.0, self.ends - time.monotonic()) / self.each) if self.each else wanted
        return wanted if n >= wanted else FEWEST_PARTS if n >= FEWEST_PARTS else 0


def cross_validate(
    state: TrainingState, n_steps: int, callbacks: Callbacks, run: str, budget: Budget
) -> tuple[CrossValidation, tuple[Importance, ...]] | None:
    """What the network of a run and the simple models reach on rows that they did not learn from.

    n_steps: of each network. None where there is no time.
    """
    task, began, parts, ends = state.task, time.monotonic(), list[_Part](), budget.ends
    assert isinstance(task, ExampleTask)
    n_parts = budget.parts_within(state.plan.folds)
    for number, fold in enumerate(task.folds(n_parts) if n_parts else (), start=1):
        each = (time.monotonic() - began) / len(parts) if parts else 0.0
        if time.monotonic() + each > ends:
            break
        callbacks.on_fold(number, n_parts)
        parts.append(_answer_part(state, fold, n_steps, callbacks, run))
    return _join(state, n_steps, n_parts, parts) if parts else None


def _answer_part(state: TrainingState, fold: ExampleTask, n_steps: int, callbacks: Callbacks, run: str) -> _Part:
    shape = fold.inputs
    config = dataclasses.replace(state.config, numbers=shape.numbers, categories=shape.categories)
    plan = state.plan._replace(batch_size=min(state.plan.batch_size, fold.max_batch_size))
    made = build_training(state.card, config, plan, fold)
    for step in _up_to(n_steps, made):
        callbacks.stop.raise_if_asked(run, at=f"step {step:,} of the cross-validation")
    network = made.model.for_inference()
    assert isinstance(network, ExampleModel)
    scored = fold.score_examples(network, fold.sides.dev)
    loss, is_classes = fold.loss(plan), fold.sides.task == "classification"
    scores, truth = scored.scores.double().numpy(), scored.targets.double().numpy()
    answers = {state.card.name: scores if is_classes else in_units(fold.sides, scores)}
    for model, _ in fit_simple_models(fold.sides):
        said = model.answers(fold.sides.dev)
        # Its name may say of how many rows or rounds it was made, which differ from part to part.
        answers[model.name.split(",")[0].split(" of ")[0]] = said if is_classes else in_units(fold.sides, said)
    probabilities = class_probabilities(scored.scores, loss) if is_classes and loss.probabilities else None
    effects = permutation_effects(fold, network, fold.sides.dev, plan.seed)
    return _Part(answers, probabilities, truth if is_classes else in_units(fold.sides, truth), effects)


def _up_to(n_steps: int, made: TrainingState) -> Iterator[int]:
    """The first steps of the whole plan, so that the learning rate is what it was."""
    if not n_steps:
        return
    for step in steps(made.model, made.batches, made.optimizer, made.plan, engine=made.engine):
        yield step.step
        if step.step >= n_steps:
            return


def _join(
    state: TrainingState, n_steps: int, n_parts: int, parts: list[_Part]
) -> tuple[CrossValidation, tuple[Importance, ...]]:
    task, network = state.task, state.card.name
    assert isinstance(task, ExampleTask)
    sides, is_classes = task.sides, task.sides.task == "classification"
    truth = np.concatenate([part.truth for part in parts])
    # A simple model that could not be made of every part is left out.
    names = [name for name in parts[0].answers if all(name in part.answers for part in parts)]
    said = {name: np.concatenate([part.answers[name] for part in parts]) for name in names}
    models, units = {}, {}
    for name, answers in said.items():
        if is_classes:
            probable = answers if name != network else None
            if name == network and parts[0].probabilities is not None:
                probable = np.concatenate([part.probabilities for part in parts if part.probabilities is not None])
            classes = truth.astype(np.int64)
            models[name] = ModelMetrics(name, class_metrics(sides, answers, classes, probable))
            units[name] = metrics.class_units(answers, classes)
        else:
            intervals = tuple(intervals_of(SIDE, answers, truth))
            models[name] = ModelMetrics(name, number_metrics(answers, truth, 1.0), intervals)
            units[name] = metrics.number_units(answers, truth)
    metric = task.measure.metric
    simple = sorted((name for name in names if name != network), key=lambda name: -models[name].metrics[metric])

    def over(name: str) -> Gain:
        return metrics.paired_gain(SIDE, units[network], units[name])

    found = CrossValidation(
        parts=n_parts,
        n_done=len(parts),
        n_rows=len(truth),
        steps=n_steps,
        models=tuple(models[name] for name in (network, *simple)),
        gain=over(simple[0]),
        over_trees=next((over(name) for name in simple if name.startswith(TREES)), None),
    )
    spread = 1.0 if is_classes else float(((truth - truth.mean()) ** 2).mean()) or 1.0
    effects: dict[str, Floats] = {}
    for column in dict.fromkeys(column for part in parts for column in part.effects):
        # A column that was the same in all other parts was not read, and nothing is lost with it.
        none = [np.zeros(len(next(iter(part.effects.values()), part.truth))) for part in parts]
        rows = [part.effects.get(column, zeros) for part, zeros in zip(parts, none, strict=True)]
        effects[column] = np.concatenate(rows) / spread
    return found, importances_of(effects, is_share=is_classes)
