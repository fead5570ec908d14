"""Checkpoints: what is saved, what is believed when it is read back, and what is refused."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from pellucid.errors import NotWritten, PellucidError
from pellucid.runs import RunWriter, read_log
from pellucid.runs.disk import Damaged, checksummed_json, parse_checksummed
from pellucid.runs.folder import checkpoint_at, checkpoint_steps
from pellucid.training.checkpoints import (
    Checkpoint,
    delete_old_checkpoints,
    load_best,
    newest_checkpoint,
    require_matching_weights,
    save_best,
    save_checkpoint,
)
from pellucid.training.tensor_files import MOST_TENSORS, from_safetensors, to_safetensors


def tensors(step: int) -> dict[str, torch.Tensor]:
    """Weights that say of which step they are, in every kind that a model has."""
    made = torch.Generator().manual_seed(step)
    return {
        "table": torch.randn(5, 4, generator=made),
        "bias": torch.full((3,), float(step)),
        "n_seen": torch.tensor(step),
        "half": torch.ones(2, dtype=torch.bfloat16),
    }


def momenta(step: int) -> dict[str, torch.Tensor]:
    return {"table.first": torch.full((5, 4), step / 7), "steps": torch.tensor(float(step))}


def save(run: Path, step: int) -> Path:
    return save_checkpoint(run, step, tensors(step), momenta(step), {"best_step": step - 1, "loss": step / 3})


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints of steps 1 and 2, and a line of metrics for each."""
    with RunWriter.create(tmp_path / "runs" / "x", {"seed": 1}, n_bytes=1000) as writer:
        for step in (1, 2):
            writer.append("metrics", {"step": step})
            save(writer.path, step)
        yield writer


def refused(action, *words: str, kind: type[PellucidError] = PellucidError, code: int = 2) -> None:
    with pytest.raises(kind) as caught:
        action()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message
    assert caught.value.exit_code == code


def falls_back(run: RunWriter, *words: str) -> None:
    """Step 2 is refused for a reason that is said, and step 1 is used."""
    found = newest_checkpoint(run.path)
    assert found is not None
    assert found.step == 1
    assert (found.step, list(found.unused)) == (1, [2])
    assert all(word in found.unused[2] for word in words), found.unused
    assert_is(found, 1)


def assert_is(found: Checkpoint, step: int) -> None:
    for came, due in ((found.model, tensors(step)), (found.optimizer, momenta(step))):
        assert came.keys() == due.keys()
        for name, tensor in due.items():
            assert came[name].dtype == tensor.dtype
            assert torch.equal(came[name], tensor)
    assert found.state == {"best_step": step - 1, "loss": step / 3}


def test_what_is_saved_comes_back_to_the_bit(run):
    found = newest_checkpoint(run.path)
    assert found is not None
    assert found.step == 2
    assert found.unused == {}
    assert_is(found, 2)
    # Loaded tensors are one's own: training on changes no file.
    found.model["table"].add_(1)
    again = newest_checkpoint(run.path)
    assert again is not None
    assert_is(again, 2)


def test_equal_tensors_give_equal_bytes():
    one = tensors(3)
    assert to_safetensors(one) == to_safetensors(dict(reversed(list(tensors(3).items()))))
    base = torch.arange(12.0)
    tied = {"a": base.view(3, 4), "b": base.view(3, 4).t(), "c": base[2:5], "d": base, "e": base}
    assert to_safetensors(tied) == to_safetensors({name: tensor.clone() for name, tensor in tied.items()})
    assert torch.equal(from_safetensors(to_safetensors(tied), "x")["b"], tied["b"])


def test_files_have_the_mode_that_the_umask_gives(run):
    before = os.umask(0o027)
    try:
        save(run.path, 3)
        save_best(run.path, 3, tensors(3))
    finally:
        os.umask(before)
    for path in [*checkpoint_at(run.path, 3).iterdir(), run.path / "model.safetensors", run.path / "model.json"]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_logs_go_back_to_what_the_checkpoint_saw(run):
    run.append("metrics", {"step": 3})
    run.append("findings", {"step": 2, "says": "after the checkpoint"})
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    run.rewind(2)
    assert read_log(run.path, "metrics") == [{"step": 1}, {"step": 2}]
    assert read_log(run.path, "findings") == []
    run.append("metrics", {"step": 3})
    assert [record["step"] for record in read_log(run.path, "metrics")] == [1, 2, 3]
    run.rewind(1)
    assert read_log(run.path, "metrics") == [{"step": 1}]
    assert checkpoint_steps(run.path) == [1]
    (run.path / "metrics.jsonl").write_bytes(b"")
    refused(lambda: run.rewind(1), "metrics.jsonl of 'x' is damaged: it has lost lines", kind=Damaged)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_truncated_at_every_length(run, name):
    path = checkpoint_at(run.path, 2) / name
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        falls_back(run, name)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_one_bit_flipped(run, name):
    path = checkpoint_at(run.path, 2) / name
    whole = path.read_bytes()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        try:
            falls_back(run)
        except PellucidError as error:
            # One flip makes the format a larger number, which is a newer pellucid's.
            assert "made by a newer pellucid" in str(error)  # noqa: PT017
            assert name == "state.json"
    path.write_bytes(whole)
    found = newest_checkpoint(run.path)
    assert found is not None
    assert found.step == 2


def forged(run: RunWriter, content: bytes, name: str = "model.safetensors") -> None:
    """Put other content into step 2 with a manifest that vouches for it, as somebody who means harm would."""
    folder = checkpoint_at(run.path, 2)
    state = parse_checksummed((folder / "state.json").read_bytes(), folder)
    state["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / name).write_bytes(content)
    (folder / "state.json").write_bytes(checksummed_json(state))


def safetensors_file(header: object, data: bytes, *, text: bytes | None = None) -> bytes:
    head = json.dumps(header).encode() if text is None else text
    return len(head).to_bytes(8, "little") + head + data


ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
ONE_TEXT = json.dumps(ONE).encode()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (safetensors_file({"a": ONE}, b"\0" * 5), "bytes come after its last tensor"),
        (safetensors_file({"a": ONE}, b"\0" * 4 + b"PK\3\4" * 9), "bytes come after its last tensor"),
        (safetensors_file({}, b"", text=b'{"a":' + ONE_TEXT + b',"a":' + ONE_TEXT + b"}") + b"\0" * 4, "header"),
        (safetensors_file({str(n): ONE for n in range(MOST_TENSORS + 1)}, b"\0" * 4), "at most 20,000 tensors"),
        (safetensors_file({"a": ONE, "b": ONE}, b"\0" * 4), "overlap"),
        (safetensors_file({"a": {**ONE, "data_offsets": [4, 8]}}, b"\0" * 8), "gaps"),
        (safetensors_file({"a": {**ONE, "data_offsets": [0, 1 << 60]}}, b"\0" * 4), "after its last"),
        (safetensors_file({"a": {**ONE, "shape": [1 << 40]}}, b"\0" * 4), "no safetensors file"),
        (safetensors_file({"a": {**ONE, "dtype": "F33"}}, b"\0" * 4), "no safetensors file"),
        (safetensors_file({"a": {**ONE, "shape": [-1]}}, b"\0" * 4), "no safetensors file"),
        (safetensors_file({"a": 3}, b"\0" * 4), "overlap"),
        (safetensors_file([ONE], b"\0" * 4), "at most 20,000 tensors"),
        (safetensors_file({}, b"", text=b"[" * 100_000), "header is damaged"),
        ((9 << 20).to_bytes(8, "little") + b"{}" + b" " * (9 << 20), "header does not fit"),
        (b"\xff" * 8 + b"{}", "header does not fit"),
        (b"", "header does not fit"),
        (b"\x80\x04\x95\x00", "header does not fit"),
        (safetensors_file({"a": ONE}, b"\0\0\xc0\x7f"), "'a' holds numbers that are not finite"),
        (safetensors_file({"a": ONE}, b"\0\0\x80\xff"), "'a' holds numbers that are not finite"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_a_forged_file_that_is_vouched_for(run, content, why):
    forged(run, content)
    falls_back(run, why)
    forged(run, to_safetensors(tensors(2)))
    forged(run, content, "optimizer.safetensors")
    falls_back(run, "optimizer.safetensors", why)


@pytest.mark.parametrize("change", [{"step": 3}, {"logs": {"metrics": -1}}, {"more": 1}, {"files": {}}, {"state": []}])
def test_a_manifest_of_another_shape(run, change):
    path = checkpoint_at(run.path, 2) / "state.json"
    path.write_bytes(checksummed_json({**parse_checksummed(path.read_bytes(), path), **change}))
    falls_back(run, "logs.metrics does not say where" if "logs" in change else "state.json does not describe step 2")


def test_a_file_is_missing_one_too_many_or_swapped(run):
    first, second = checkpoint_at(run.path, 1), checkpoint_at(run.path, 2)
    for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
        content = (second / name).read_bytes()
        (second / name).unlink()
        falls_back(run, f"{name} is missing")
        (second / name).mkdir()
        falls_back(run)
        (second / name).rmdir()
        (second / name).symlink_to(first / name)
        falls_back(run)
        (second / name).unlink()
        shutil.copy(first / name, second / name)
        falls_back(run)
        (second / name).write_bytes(content)
    (second / "model.pt").write_bytes(b"\x80\x04")
    falls_back(run, "model.pt is not part of it")
    (second / "model.pt").unlink()
    second.rename(run.path / "aside")
    shutil.copytree(first, second)
    falls_back(run, "state.json does not describe step 2")
    shutil.rmtree(second)
    (run.path / "checkpoints" / "step-000000003").write_text("a file")
    second.mkdir()
    found = newest_checkpoint(run.path)
    assert found is not None
    assert found.step == 1
    assert list(found.unused) == [3, 2]


def test_nothing_whole_is_left(run):
    for step in (1, 2):
        (checkpoint_at(run.path, step) / "model.safetensors").write_bytes(b"")
    refused(
        lambda: newest_checkpoint(run.path),
        "no checkpoint of x is whole",
        "of step 2, model.safetensors",
        kind=Damaged,
    )


def test_a_newer_checkpoint_is_not_passed_over(run):
    path = checkpoint_at(run.path, 2) / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 3}))
    refused(lambda: newest_checkpoint(run.path), "made by a newer pellucid")


def test_before_the_first_checkpoint(tmp_path):
    with RunWriter.create(tmp_path / "x", {}, 1) as run:
        assert newest_checkpoint(run.path) is None
        half = run.path / "checkpoints" / ".tmp-abc"
        half.mkdir()
        (half / "model.safetensors").write_bytes(b"half")
        assert newest_checkpoint(run.path) is None
        delete_old_checkpoints(run.path, keep=set())
        assert os.listdir(run.path / "checkpoints") == []


class Small(nn.Module):
    def __init__(self, vocab_size: int, width: int = 4, depth: int = 1) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.table = nn.Embedding(vocab_size, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.scores = nn.Linear(width, vocab_size)


def test_weights_of_another_model():
    model = Small(81)
    require_matching_weights(model, Small(81).state_dict())

    def fits(other: dict[str, torch.Tensor]):
        return lambda: require_matching_weights(model, other)

    refused(fits(Small(65).state_dict()), "checkpoint has 65 symbols, data has 81.")
    refused(fits(Small(81, width=8).state_dict()), "'table.weight' is 81 × 8 in the checkpoint and 81 × 4 in the model")
    refused(fits(Small(65, width=8).state_dict()), "'table.weight' is 65 × 8")
    refused(fits(Small(81, depth=3).state_dict()), "no place for 'layers.1.weight' and 3 more")
    refused(fits(Small(81, depth=0).state_dict()), "lacks 'layers.0.weight' and 1 more")
    refused(fits(Small(81).double().state_dict()), "'table.weight' is torch.float64 in the checkpoint")
    refused(fits({}), "lacks 'table.weight'")


def test_what_is_not_finite_is_never_saved(run):
    for model, optimizer in (
        ({"w": torch.tensor([1.0, float("nan")])}, momenta(3)),
        (tensors(3), {"m": torch.tensor(float("inf"))}),
    ):
        refused(
            lambda model=model, optimizer=optimizer: save_checkpoint(run.path, 3, model, optimizer, {}),
            "is not finite at step 3",
            kind=NotWritten,
            code=3,
        )
    assert checkpoint_steps(run.path) == [2, 1]


def test_never_fewer_than_two_whole_ones(run):
    for step in range(3, 40):
        save(run.path, step)
    delete_old_checkpoints(run.path, keep={7})
    assert checkpoint_steps(run.path) == [39, 38, 7]
    for step in range(40, 43):
        save(run.path, step)
    # Damaged ones do not count as kept.
    for step in (40, 42):
        (checkpoint_at(run.path, step) / "model.safetensors").write_bytes(b"")
    delete_old_checkpoints(run.path, keep=set())
    assert checkpoint_steps(run.path) == [42, 41, 40, 39]
    (checkpoint_at(run.path, 39) / "state.json").unlink()
    delete_old_checkpoints(run.path, keep=set())
    assert checkpoint_steps(run.path) == [42, 41, 40, 39]


def test_order_is_by_step_and_not_by_any_clock(run, monkeypatch):
    for step in (3, 1_000_000_000, 10):
        save(run.path, step)
    os.utime(checkpoint_at(run.path, 1), (4e9, 4e9))
    os.utime(checkpoint_at(run.path, 1_000_000_000), (0, 0))
    monkeypatch.setattr(time, "time", lambda: -1.0)
    assert checkpoint_steps(run.path) == [1_000_000_000, 10, 3, 2, 1]
    delete_old_checkpoints(run.path, keep=set())
    assert checkpoint_steps(run.path) == [1_000_000_000, 10]


def test_clean_up_that_was_killed(run):
    """Half of a folder that was being deleted is never taken for a checkpoint, and goes at the next tidying."""
    trash = run.path / "checkpoints" / ".trash-abc"
    shutil.copytree(checkpoint_at(run.path, 2), trash)
    (trash / "optimizer.safetensors").unlink()
    found = newest_checkpoint(run.path)
    assert found is not None
    assert (found.step, found.unused) == (2, {})
    delete_old_checkpoints(run.path, keep=set())
    assert sorted(os.listdir(run.path / "checkpoints")) == ["step-000000001", "step-000000002"]


def test_a_step_is_saved_again_over_a_damaged_one(run):
    (checkpoint_at(run.path, 2) / "model.safetensors").write_bytes(b"")
    save(run.path, 2)
    found = newest_checkpoint(run.path)
    assert found is not None
    assert_is(found, 2)
    assert sorted(os.listdir(run.path / "checkpoints")) == ["step-000000001", "step-000000002"]


WRITER = """
import sys, torch
from pathlib import Path
from pellucid.training.checkpoints import newest_checkpoint, save_checkpoint, delete_old_checkpoints
from pellucid.training.checkpoints import load_best, save_best
torch.set_num_threads(1)
run = Path(sys.argv[1])
for step in range(3, 100_000):
    weights = {"w": torch.full((20_000,), float(step))}
    save_checkpoint(run, step, weights, {"m": -weights["w"]}, {"step": step})
    save_best(run, step, weights)
    delete_old_checkpoints(run, keep=set())
"""


@pytest.fixture
def writing(run):
    """Another process that saves as fast as it can, and is killed at the end."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, run.path])
    while not (run.path / "model.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.01)
    yield process
    process.kill()
    process.wait()


def test_reading_while_another_process_writes(run, writing):
    steps: list[int] = []
    while len(steps) < 250 or steps[-1] - steps[0] <= 5:  # a slow disk may need more reads
        assert writing.poll() is None
        found = newest_checkpoint(run.path)
        assert found is not None
        assert found.unused == {}
        assert found.state == {"step": found.step}
        assert bool((found.model["w"] == found.step).all())
        assert torch.equal(found.optimizer["m"], -found.model["w"])
        best, step = load_best(run.path)
        assert bool((best["w"] == step).all())
        steps.append(found.step)
    assert steps == sorted(steps)


KILLER = """
import os, random, signal, sys, time, torch
from pathlib import Path
from pellucid.training.checkpoints import newest_checkpoint, save_checkpoint, delete_old_checkpoints
from pellucid.training.checkpoints import load_best, save_best
torch.set_num_threads(1)
run, draw = Path(sys.argv[1]), random.Random(1)

def weights(step):
    return {"w": torch.full((20_000,), float(step))}

def save(step):
    save_checkpoint(run, step, weights(step), weights(-step), {"step": step})
    save_best(run, step, weights(step))
    delete_old_checkpoints(run, keep=set())

save(10)
began = time.monotonic()
save(11)
seconds = time.monotonic() - began
torn, last = 0, 11
for kill in range(60):
    if not (child := os.fork()):
        for step in range(last + 1, last + 1000):
            save(step)
        os._exit(1)
    time.sleep(draw.uniform(0, 3 * seconds))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    torn += any(path.name.startswith(".") for path in (run / "checkpoints").iterdir())
    found = newest_checkpoint(run)
    best, step = load_best(run)
    assert found.unused == {} and found.step >= last and found.state == {"step": found.step}
    assert (found.model["w"] == found.step).all() and (found.optimizer["w"] == -found.step).all()
    assert (best["w"] == step).all() and step <= found.step
    last = found.step
print(last > 11, torn > 0, flush=True)
os._exit(0)
"""


def test_killed_while_it_saves(run):
    """60 kills at random moments of three savings, so many of them in the middle of one; all is whole each time."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLER, run.path], capture_output=True, encoding="utf-8", check=False
    )
    assert (done.stdout, done.stderr) == ("True True\n", "")


def test_best_weights_come_back(run):
    refused(lambda: load_best(run.path), "model.json of 'x' is damaged: it is missing", "pellucid train --resume x")
    for step in (1, 5):
        save_best(run.path, step, tensors(step))
        found, at = load_best(run.path)
        assert at == step
        assert torch.equal(found["table"], tensors(step)["table"])
        assert json.loads((run.path / "model.json").read_text())["weights"][0]["step"] == step


def test_best_weights_however_their_writer_was_killed(run):
    """All states that the protocol passes through: old, vouched for twice, new."""
    save_best(run.path, 1, tensors(1))
    old = (run.path / "model.json").read_bytes(), (run.path / "model.safetensors").read_bytes()
    save_best(run.path, 5, tensors(5))
    new = (run.path / "model.json").read_bytes(), (run.path / "model.safetensors").read_bytes()
    both = checksummed_json({"weights": [parse_checksummed(said, run.path)["weights"][0] for said in (new[0], old[0])]})
    for voucher, weights, step in ((both, old[1], 1), (both, new[1], 5)):
        (run.path / "model.json").write_bytes(voucher)
        (run.path / "model.safetensors").write_bytes(weights)
        found, at = load_best(run.path)
        assert at == step
        assert torch.equal(found["table"], tensors(step)["table"])
        save_best(run.path, 5, tensors(5))
        assert ((run.path / "model.json").read_bytes(), (run.path / "model.safetensors").read_bytes()) == new


@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
def test_best_weights_that_were_changed(run, name):
    save_best(run.path, 1, tensors(1))
    path = run.path / name
    whole = path.read_bytes()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        for content in (bytes(damaged), whole[:at]):
            path.write_bytes(content)
            refused(lambda: load_best(run.path))
    path.write_bytes(whole + b"\n")
    refused(lambda: load_best(run.path))


def test_c1_a_pickle_is_never_opened(run, tmp_path):
    import pickle

    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "canary"),))

    trap = pickle.dumps(Trap())
    for name in ("model.safetensors", "optimizer.safetensors"):
        forged(run, trap, name)
    (run.path / "model.safetensors").write_bytes(trap)
    said = {"step": 1, "bytes": len(trap), "sha256": hashlib.sha256(trap).hexdigest()}
    (run.path / "model.json").write_bytes(checksummed_json({"weights": [said]}))
    falls_back(run, "damaged")
    refused(lambda: load_best(run.path), "model.safetensors is damaged")
    assert not (tmp_path / "canary").exists()
