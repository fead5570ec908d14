"""A run that is gone on with from any of its steps ends with the bytes of one that never stopped."""

import dataclasses
import hashlib
import os
import random
import shutil
import signal
from pathlib import Path

import pytest
import torch
from tests.at_length import AT_LENGTH

from pellucid.data.options import DataOptions
from pellucid.errors import Stopped
from pellucid.models.catalogue import find_network
from pellucid.records import Plan, Step, Timing
from pellucid.runs import LOGS, Run, RunWriter, read_log, read_record
from pellucid.runs.folder import checkpoint_at
from pellucid.training.callbacks import Callbacks
from pellucid.training.checkpoints import newest_checkpoint, require_matching_weights
from pellucid.training.tasks import open_task
from pellucid.training.tasks.sequences import SequenceTask
from pellucid.training.trainer import Trainer, TrainingState, build_training

STEPS = 100
AHEAD = 3
PLAN = Plan(
    steps=STEPS,
    batch_size=8,
    context=8,
    optimizer="adamw",
    learning_rate=0.01,
    matrix_learning_rate=0.0,
    momentum=0.0,
    weight_decay=0.01,
    clip=1.0,
    warmup=10,
    schedule="cosine",
    evaluate_every=20,
    probe_every=50,
    sample_every=100,
    save_every=1000,
    threads=1,
    seed=5,
)
# Each has something that a careless resume forgets: running means, dropout, momenta of several optimizers, counts.
KINDS = {
    "mlp": ("list", PLAN._replace(optimizer="sgd", momentum=0.9), {"norm": "batch"}),
    "gru": ("list", PLAN._replace(start="counts"), {"dropout": 0.2}),
    "transformer": (
        "text",
        PLAN._replace(optimizer="muon", matrix_learning_rate=0.02, start="counts"),
        {"dropout": 0.1},
    ),
}


@pytest.fixture(autouse=True)
def _as_many_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, SequenceTask]:
    """A list and a text, small."""
    folder = tmp_path_factory.mktemp("data")
    draw = random.Random(1)
    names = ["".join(draw.choices("abcde", k=draw.randint(2, 6))) for _ in range(80)]
    (folder / "names.txt").write_text("\n".join(names) + "\n")
    (folder / "book.txt").write_text(" ".join(names * 2) + "\n")
    wishes = {
        kind: DataOptions(str(folder / name), kind) for kind, name in (("list", "names.txt"), ("text", "book.txt"))
    }
    return {kind: open_task(one) for kind, one in wishes.items()}


def state_for(model: str, data: dict[str, SequenceTask], *, save_every: int = 1000) -> TrainingState:
    """What a run of this model works with. How often it is saved changes nothing but the time it takes."""
    kind, plan, settings = KINDS[model]
    plan = plan._replace(save_every=save_every)
    card = find_network(model, "list")
    config = dataclasses.replace(card.tiny, vocab_size=len(data[kind].sides.vocabulary), **settings)
    return build_training(card, config, plan, dataclasses.replace(data[kind], context=plan.context))


def gone_on_with(run: Path, state: TrainingState, callbacks: Callbacks | None = None) -> int:
    """Train a run from its newest checkpoint to its end, as another process would; the step it went on from."""
    with RunWriter.resume(run) as writer:
        found = newest_checkpoint(run)
        if found is not None:
            require_matching_weights(state.model, found.model)
            state.model.load_state_dict(found.model)
            state.optimizer.load(found.optimizer)
        step = found.step if found else 0
        writer.rewind(step)
        evaluations = list(Run(run, read_record(run)).evaluations)
        trainer = Trainer(writer, state, callbacks or Callbacks(), evaluations, [])
        with trainer.callbacks.stop.held(run.name):
            trainer.train_from(step)
    return step


def digests(run: Path) -> dict[str, str]:
    """Weights, optimizer and all logs but the timings."""
    last = run / "checkpoints" / f"step-{STEPS:09d}"
    files = [run / "model.safetensors", last / "model.safetensors", last / "optimizer.safetensors"]
    files += [run / f"{log}.jsonl" for log in LOGS if log != "timings" and (run / f"{log}.jsonl").exists()]
    assert len(files) >= 7
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


class Photographer(Callbacks):
    """Copies the run after each step, when its checkpoint is there and the next step is already in the log."""

    def __init__(self, run: Path, album: Path) -> None:
        super().__init__()
        self.run = run
        self.album = album

    def on_step(self, step: Step, timing: Timing) -> None:
        shutil.copytree(self.run, self.album / f"{step.step - 1}")


@pytest.mark.parametrize("model", KINDS)
def test_resumed_along_the_way(tmp_path, data, model):
    """A few steps on, everything is what it was the first time; so it will be at the end, which some go on to."""
    run, album = tmp_path / "alone", tmp_path / "after"
    RunWriter.create(run, {}, 1).close()
    gone_on_with(run, state_for(model, data, save_every=1), Photographer(run, album))
    wanted = digests(run)
    for step in range(0, STEPS - AHEAD, 1 if AT_LENGTH else 7 if model == "mlp" else 14):
        copy = shutil.copytree(album / str(step), tmp_path / "copies" / str(step))
        with pytest.raises(Stopped):
            gone_on_with(copy, state_for(model, data), Impatient({step + AHEAD}))
        assert_equal_at(step + AHEAD, copy, album / str(step + AHEAD))
    for step in (37, STEPS - 2, STEPS - 1):
        copy = album / str(step)
        assert gone_on_with(copy, state_for(model, data)) == step
        assert digests(copy) == wanted, step
    # The last step too: nothing is left to train, and nothing changes.
    assert gone_on_with(run, state_for(model, data)) == STEPS
    assert digests(run) == wanted


def assert_equal_at(step: int, one: Path, other: Path) -> None:
    """Both runs have the same weights and optimizer after this step, and the same lines in their logs up to it."""
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (checkpoint_at(one, step) / name).read_bytes() == (checkpoint_at(other, step) / name).read_bytes()
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    for log in LOGS[:-1]:
        assert read_log(one, log) == [record for record in read_log(other, log) if record["step"] <= step]


def test_killed_before_the_first_checkpoint(tmp_path, data):
    """Lines are in the logs and half of a checkpoint lies there; all of it goes."""
    for name in ("alone", "killed"):
        RunWriter.create(tmp_path / name, {}, 1).close()
    gone_on_with(tmp_path / "alone", state_for("mlp", data))
    for log in LOGS:
        (tmp_path / "killed" / f"{log}.jsonl").write_text('{"step": 0}\n{"step": 1}\n{"ste')
    (tmp_path / "killed" / "checkpoints" / ".tmp-0").mkdir()
    (tmp_path / "killed" / "checkpoints" / ".tmp-0" / "model.safetensors").write_bytes(b"half")
    assert gone_on_with(tmp_path / "killed", state_for("mlp", data)) == 0
    assert digests(tmp_path / "killed") == digests(tmp_path / "alone")
    assert not [name for name in os.listdir(tmp_path / "killed" / "checkpoints") if name.startswith(".")]


class Impatient(Callbacks):
    """Asks to stop at some steps, as Ctrl-C would."""

    def __init__(self, steps: set[int]) -> None:
        super().__init__()
        self.steps = steps

    def on_step(self, step: Step, timing: Timing) -> None:
        if step.step in self.steps:
            self.stop.ask(signal.SIGTERM)


def test_a_stop_is_saved_at_its_own_step(tmp_path, data):
    for name in ("alone", "stopped"):
        RunWriter.create(tmp_path / name, {}, 1).close()
    gone_on_with(tmp_path / "alone", state_for("mlp", data))
    for step in (1, 7, 40, 99):
        with pytest.raises(Stopped, match=f"stopped by SIGTERM at step {step}. Go on with .* --resume stopped"):
            gone_on_with(tmp_path / "stopped", state_for("mlp", data), Impatient({step}))
        found = newest_checkpoint(tmp_path / "stopped")
        assert found is not None
        assert found.step == step
    gone_on_with(tmp_path / "stopped", state_for("mlp", data))
    assert digests(tmp_path / "stopped") == digests(tmp_path / "alone")
