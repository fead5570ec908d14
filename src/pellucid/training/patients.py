"""A run as the doctor's patient: its best network, batches of its dev side, and the loss that it was trained on."""

from __future__ import annotations

from pellucid.inspection.instrument.specimen import LossFunction, Specimen
from pellucid.inspection.losses import cross_entropy_loss
from pellucid.models.contracts import Network
from pellucid.records import Plan
from pellucid.runs import Run
from pellucid.training.run import ResumeOptions, reopen_data
from pellucid.training.tasks.examples import ExampleTask
from pellucid.training.tasks.task import Inputs, Task
from pellucid.training.weights import load_network

MOST_ROWS = 64  # of a batch: more prove no more, and every probe waits for them
N_BATCHES = 3


def patient_of(run: Run, data: str = "") -> Specimen:
    """The network of a run with its best weights, in the mode it learns in. data: where its data are, if they moved."""
    task, _ = reopen_data(run, ResumeOptions(data=data))
    model, step = load_network(run)
    (inputs, targets), *more = _dev_batches(task, run.plan, model.train())
    return Specimen(
        model=model,
        inputs=inputs,
        targets=targets,
        loss=_loss_of(task, run.plan),
        more=tuple(more),
        is_causal=task.is_causal,
        name=f"{run.model} of the run {run.name}, weights of step {step:,}",
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
