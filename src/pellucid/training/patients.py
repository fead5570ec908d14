"""A run as the doctor's patient: its best network, batches of its dev side, and the loss that it was trained on."""

from __future__ import annotations

from pathlib import Path

from pellucid import runs
from pellucid.inspection.instrument.specimen import LossFunction, Specimen
from pellucid.inspection.losses import cross_entropy_loss
from pellucid.models.contracts import Network
from pellucid.records import Plan
from pellucid.records.plain import from_plain
from pellucid.training.run import ResumeOptions, reopen_data
from pellucid.training.tasks.examples import ExampleTask
from pellucid.training.tasks.task import Inputs, Task
from pellucid.training.weights import load_best, require_matching_weights

MOST_ROWS = 64  # of a batch: more prove no more, and every probe waits for them
N_BATCHES = 3


def patient_of(run: Path, data: str = "") -> Specimen:
    """The network of a run with its best weights, in the mode it learns in. data: where its data are, if they moved."""
    record = runs.read_record(run)
    task, _ = reopen_data(run, record, ResumeOptions(data=data))
    card = task.find_card(str(record["model"]))
    plan = from_plain(Plan, record["plan"])
    model = card.build(card.config_from(record["config"]))
    tensors, step = load_best(run)
    require_matching_weights(model, tensors)
    model.load_state_dict(tensors)
    (inputs, targets), *more = _dev_batches(task, plan, model.train())
    return Specimen(
        model=model,
        inputs=inputs,
        targets=targets,
        loss=_loss_of(task, plan),
        more=tuple(more),
        is_causal=task.is_causal,
        name=f"{card.name} of the run {run.name}, weights of step {step:,}",
    )


def _loss_of(task: Task, plan: Plan) -> LossFunction:
    """What the run made small, without the penalty, as a function of outputs and targets."""
    if not isinstance(task, ExampleTask):
        return cross_entropy_loss
    losses = task.loss(plan).losses
    return lambda outputs, targets: losses(outputs, targets).mean()


def _dev_batches(task: Task, plan: Plan, model: Network) -> list[Inputs]:
    """The first few batches of the dev side, of one epoch alone, so that no row is in two of them."""
    batches = task.dev_batches(min(plan.batch_size, MOST_ROWS), plan)
    steps = range(1, min(N_BATCHES, batches.per_epoch) + 1)
    return [task.split_batch(model, batches.batch(step)) for step in steps]
