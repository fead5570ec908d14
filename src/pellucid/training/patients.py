"""A run as the doctor's patient: its best network, batches of its dev side, and the loss that it was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from pellucid import runs
from pellucid.inspection.instrument.specimen import LossFunction, Specimen
from pellucid.inspection.losses import mean_cross_entropy
from pellucid.models.network import config_of
from pellucid.records import Plan
from pellucid.records.plain import from_plain
from pellucid.training.batches import batches_of
from pellucid.training.example_batches import ExampleBatches
from pellucid.training.example_passes import wanted
from pellucid.training.example_task import ExampleTask
from pellucid.training.pair_batches import PairBatches
from pellucid.training.pair_task import PairTask
from pellucid.training.run import ResumeOptions, reopen_data
from pellucid.training.sequence_task import SequenceTask
from pellucid.training.task import Task
from pellucid.training.weights import load_best, require_matching_weights

MOST_ROWS = 64  # of a batch: more prove no more, and every probe waits for them
N_BATCHES = 3

Given = tuple[tuple[Any, ...], Tensor | None]  # inputs and targets


def patient_of(run: Path, data: str = "") -> Specimen:
    """The network of a run with its best weights, in the mode it learns in. data: where its data are, if they moved."""
    record = runs.read_record(run)
    task, _ = reopen_data(run, record, ResumeOptions(data=data))
    card = task.card(str(record["model"]))
    plan = from_plain(Plan, record["plan"])
    model = card.build(config_of(card, record["config"]))
    tensors, step = load_best(run)
    require_matching_weights(model, tensors)
    model.load_state_dict(tensors)
    (inputs, targets), *more = batches_on_dev(task, plan, model.train())
    return Specimen(
        model=model,
        inputs=inputs,
        targets=targets,
        loss=loss_of(task, plan),
        more=tuple(more),
        is_causal=True if isinstance(task, SequenceTask) else False if isinstance(task, ExampleTask) else None,
        name=f"{card.name} of the run {run.name}, weights of step {step:,}",
    )


def loss_of(task: Task, plan: Plan) -> LossFunction:
    """What the run made small, without the penalty, as a function of outputs and targets."""
    if not isinstance(task, ExampleTask):
        return mean_cross_entropy
    losses = task.loss(plan).losses
    return lambda outputs, targets: losses(outputs, targets).mean()


def batches_on_dev(task: Task, plan: Plan, model: Any) -> list[Given]:
    """The first few batches of the dev side, with as many rows as a step has, or fewer."""
    rows = min(plan.batch, MOST_ROWS)
    if isinstance(task, SequenceTask):
        stream = batches_of(task.sides.dev, rows, plan.context, plan.seed)
        lots = [stream.batch(step) for step in _steps(stream.per_epoch)]
        return [((lot.tokens,), lot.targets) for lot in lots]
    if isinstance(task, PairTask):
        pairs = PairBatches(task.sides.dev, rows, plan.seed)
        written = [pairs.batch(step) for step in _steps(pairs.per_epoch)]
        return [((lot.sources, lot.tokens), lot.targets) for lot in written]
    assert isinstance(task, ExampleTask)
    examples = ExampleBatches(task.sides.dev, rows, plan.seed)
    read = [examples.batch(step) for step in _steps(examples.per_epoch)]
    return [((lot.numbers, lot.codes), wanted(model, lot)) for lot in read]


def _steps(per_epoch: int) -> range:
    """Of one epoch alone, so that no row is in two of the batches."""
    return range(1, min(N_BATCHES, per_epoch) + 1)
