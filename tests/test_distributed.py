"""One training in several processes: the same batches, the same losses, one writer; and what is refused."""

import os
import signal
import stat
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from trust.kills import write_data
from trust.processes import (
    alive,
    children_of,
    farthest,
    free_port,
    n_steps_made,
    rows,
    start_launcher,
    train_together,
    wait_for,
)

from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError
from pellucid.layers.norms import BatchNorm
from pellucid.records import Resumption
from pellucid.runs import is_finished
from pellucid.runs.disk import hold_folder, sweep_unheld
from pellucid.training.callbacks import StopRequests
from pellucid.training.distributed import ALONE, Share, World, world_of_environment
from pellucid.training.launch import LaunchOptions, is_follower, restarted_run, route_to, tell_outcome
from pellucid.training.loop import steps
from pellucid.training.options import TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.shared_data import read_shared, write_shared
from pellucid.training.tasks import open_task
from pellucid.training.trainer import build_training

TINY = ["--size", "tiny", "--batch-size", "16", "--dropout", "0", "--threads", "1", "--seed", "3"]
SMALL = ["names.txt", "--model", "transformer", *TINY]


def plan_for(folder: Path, **options):
    write_data(folder)
    task = open_task(DataOptions(source=str(folder / "names.txt")))
    asked = TrainOptions(model="transformer", size="tiny", steps=4, batch_size=7, threads=1, **options)
    return task, *choose_plan(task.find_card("transformer"), task, asked)


@pytest.mark.parametrize("source", ["names.txt", "book.txt", "reverse", "digits", "penguins"])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_shares_of_a_batch_are_the_batch(tmp_path, source, n):
    write_data(tmp_path)
    is_file = (tmp_path / source).exists()
    data = DataOptions(source=str(tmp_path / source) if is_file else source, target="species" * (source == "penguins"))
    task = open_task(data)
    card = task.find_card({"reverse": "encoder-decoder", "digits": "cnn", "penguins": "mlp"}.get(source, "mlp"))
    kind = task.facts.kind
    asked = TrainOptions(model=card.name, size="tiny", steps=4, batch_size=7, threads=1, kind=kind)
    _, plan = choose_plan(card, task, asked)
    batches = task.make_batches(plan, is_fair=False)
    for step in (1, 2, 5):
        whole = batches.batch(step)
        parts = [batches.batch(step, Share(i, n)) for i in range(n) if batches.has_rows(step, Share(i, n))]
        assert sum(part.n_tokens for part in parts) == whole.n_tokens
        held = [
            part.targets[row][part.targets[row] != -100].tolist() for part in parts for row in range(len(part.targets))
        ]
        if whole.targets.ndim > 1:
            assert held == [row[row != -100].tolist() for row in whole.targets]
        else:
            assert torch.equal(torch.cat([part.targets for part in parts]), whole.targets)
        if kind == "images":  # moved by the same chance, whoever holds them
            assert torch.equal(torch.cat([part.numbers for part in parts]), whole.numbers)


def test_more_shares_than_rows_leave_some_with_nothing_that_counts():
    rows_ = np.array([4, 5])
    assert [Share(i, 3).rows(rows_).tolist() for i in range(3)] == [[4], [5], [4]]


def test_pieces_of_a_batch_give_the_gradient_of_the_whole(tmp_path):
    task, config, plan = plan_for(tmp_path)
    card = task.find_card("transformer")
    found = []
    for accumulate in (1, 3):
        state = build_training(card, config, plan._replace(accumulate=accumulate), task)
        seen = state.engine.gradients(state.batches, 1)
        found.append((seen, [one.grad for one in state.model.parameters()]))
    (one, gradients), (other, pieces) = found
    assert other.loss == pytest.approx(one.loss, abs=1e-6)
    assert one.n_tokens == other.n_tokens
    for gradient, piece in zip(gradients, pieces, strict=True):
        torch.testing.assert_close(gradient, piece, atol=1e-6, rtol=1e-5)


def test_passes_are_dealt_and_a_divided_network_makes_as_many_everywhere():
    for n_passes in range(9):
        dealt = [list(World(rank, 4).deal(range(n_passes), in_step=True)) for rank in range(4)]
        assert sorted(one for own in dealt for one, counts in own if counts) == list(range(n_passes))
        assert len({len(own) for own in dealt}) == 1
        assert [[one for one, _ in World(rank, 4).deal(range(n_passes))] for rank in range(4)] == [
            [one for one, counts in own if counts] for own in dealt
        ]


def test_a_share_is_as_wide_as_its_batch(tmp_path):
    # To batch norm padding is a row like others: with as much of it, four processes are as one.
    write_data(tmp_path)
    task = open_task(DataOptions(source=str(tmp_path / "names.txt")))
    card = task.find_card("mlp")
    asked = TrainOptions(model="mlp", size="tiny", steps=4, batch_size=16, threads=1, start="scratch")
    batches = task.make_batches(choose_plan(card, task, asked)[1], is_fair=True)
    for step in range(1, 9):
        widths = {batches.batch(step, Share(index, 4)).tokens.shape[1] for index in range(4)}
        assert widths == {batches.batch(step).tokens.shape[1]}


def test_two_processes_share_a_divided_network_and_its_evaluations(tmp_path):
    write_data(tmp_path)
    words = [*SMALL, "--optimizer", "adamw", "--steps", "10"]
    assert train_together(tmp_path, [*words, "--name", "one"], 1) == [0]
    codes = train_together(tmp_path, [*words, "--shard", "--name", "two"], 2)
    assert codes == [0, 0], (tmp_path / "said-0.txt").read_text()
    assert farthest(tmp_path / "runs" / "one", tmp_path / "runs" / "two") < 1e-5


def test_two_processes_agree_with_one_and_only_the_first_writes(tmp_path):
    write_data(tmp_path)
    words = [*SMALL, "--steps", "20", "--save-every", "5"]
    assert train_together(tmp_path, [*words, "--name", "one"], 1) == [0]
    assert train_together(tmp_path, [*words, "--name", "two"], 2) == [0, 0], (tmp_path / "said-0.txt").read_text()
    assert farthest(tmp_path / "runs" / "one", tmp_path / "runs" / "two") < 1e-5
    # Before the first step the weights are the same, and an evaluation that two share is exact to the last bit.
    assert rows(tmp_path / "runs" / "one", "evaluations")[0] == rows(tmp_path / "runs" / "two", "evaluations")[0]
    assert (tmp_path / "said-1.txt").read_text() == ""
    assert "every batch is shared by 2 processes" in (tmp_path / "said-0.txt").read_text()
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["one", "two"]


def test_a_run_goes_on_with_another_number_of_processes(tmp_path):
    write_data(tmp_path)
    words = "names.txt --model mlp --norm batch --start scratch --size tiny --batch-size 16 --threads 1 --steps 24"
    words = [*words.split(), "--save-every", "4"]
    assert train_together(tmp_path, [*words, "--name", "whole"], 1) == [0], (tmp_path / "said-0.txt").read_text()
    run = tmp_path / "runs" / "cut"
    if not (pid := os.fork()):
        train_together(tmp_path, [*words, "--name", "cut"], 2)
        os._exit(0)
    # The fork that started the two is killed; they notice, save and end.
    until = time.monotonic() + 300
    while n_steps_made(run) < 9 and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while locked(run) and time.monotonic() < until:
        time.sleep(0.05)
    if not is_finished(run):  # else it was faster than the kill
        assert train_together(tmp_path, ["--resume", "cut"], 1) == [0], (tmp_path / "said-0.txt").read_text()[-2000:]
        assert "1 process in place of 2" in (tmp_path / "said-0.txt").read_text()
    assert farthest(tmp_path / "runs" / "whole", run) < 1e-5


def locked(run: Path) -> bool:
    import fcntl

    with (run / "lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_what_is_shared_is_mapped_and_private(tmp_path):
    task = plan_for(tmp_path)[0]
    task.prepare_training(TrainOptions(model="transformer"))
    path = write_shared(task)
    try:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        read = read_shared(path)
    finally:
        os.unlink(path)
    assert read.facts == task.facts
    assert np.array_equal(read.sides.train.tokens, task.sides.train.tokens)
    assert read.sides.train.tokens.base is not None  # a view of the file, no copy
    assert np.array_equal(read.counted.table, task.counted.table)


def test_the_environment_says_who_a_process_is():
    assert world_of_environment({}) == ALONE
    assert world_of_environment({"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}) == World(
        2, 4, 0, 2
    )
    with pytest.raises(PellucidError, match="Start it with torchrun"):
        world_of_environment({"RANK": "4", "WORLD_SIZE": "4"})
    with pytest.raises(PellucidError, match="is no number"):
        world_of_environment({"RANK": "x", "WORLD_SIZE": "4"})


def test_a_launch_that_cannot_be_is_refused_in_one_line(monkeypatch):
    cores = len(os.sched_getaffinity(0))
    with pytest.raises(PellucidError, match=f"this machine has {cores} core"):
        LaunchOptions(processes=cores + 1).require_cores()
    monkeypatch.setenv("PELLUCID_OVERSUBSCRIBE", "1")
    LaunchOptions(processes=cores + 1).require_cores()
    with pytest.raises(PellucidError, match="2 machines need an address"):
        LaunchOptions(nodes=2)
    with pytest.raises(PellucidError, match="no address of a machine and a port"):
        LaunchOptions(nodes=2, rendezvous="host")


def test_an_ending_on_purpose_is_no_accident_for_the_launcher(tmp_path, monkeypatch):
    place = tmp_path / "outcome"
    assert tell_outcome(2) == 2  # nobody launched this one
    monkeypatch.setenv("PELLUCID_OUTCOME", str(place))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert (tell_outcome(2), place.read_text()) == (0, "2")
    monkeypatch.setenv("RANK", "1")
    assert is_follower()
    assert tell_outcome(75) == 0  # the first is gone, and it said why
    place.unlink()
    monkeypatch.setattr("pellucid.training.launch.TELLING_SECONDS", 0.0)
    assert tell_outcome(75) == 75  # it was lost: all are started again


def test_a_restarted_launcher_finds_the_run_that_it_was_making(tmp_path, monkeypatch):
    assert restarted_run(tmp_path) is None
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "this one")
    assert restarted_run(tmp_path) is None


def test_a_stop_that_another_process_was_asked_for_is_followed():
    stop = StopRequests()
    stop.follow(0)
    assert not stop.is_asked
    stop.follow(signal.SIGTERM)
    assert (stop.is_asked, stop.exit_code, stop.signal_number()) == (True, 143, signal.SIGTERM)


def test_a_batch_smaller_than_its_parts_and_a_network_that_nothing_divides_are_refused(tmp_path):
    task = plan_for(tmp_path)[0]
    card = task.find_card("transformer")
    with pytest.raises(PellucidError, match="a batch of 7 cannot be cut into 9"):
        choose_plan(card, task, TrainOptions(model="transformer", steps=4, batch_size=7, accumulate=9))
    with pytest.raises(PellucidError, match="divides a network over processes, and there is one"):
        choose_plan(card, task, TrainOptions(model="transformer", steps=4, shard=True))


def test_a_resumption_says_how_many_processes_go_on():
    from pellucid.figures.words.training import resumption_lines

    said = resumption_lines(Resumption(36, processes=(2, 1), device=("cuda", "cpu")))
    assert said[1] == "note: 1 process in place of 2: the last bits may differ"
    assert said[2] == "note: on cpu in place of cuda: the last bits may differ"


def test_batch_norm_over_processes_is_that_of_the_batch(monkeypatch):
    torch.manual_seed(1)
    rows_ = torch.randn(6, 3, requires_grad=True)
    alone, shared = BatchNorm(3), BatchNorm(3)
    shared.is_shared = True
    monkeypatch.setattr("torch.distributed.all_reduce", lambda tensor: None)  # a world of one
    said, wanted = shared(rows_), alone(rows_)
    torch.testing.assert_close(said, wanted)
    weights = torch.arange(18.0).reshape(6, 3)
    torch.testing.assert_close(*(torch.autograd.grad((one * weights).sum(), rows_)[0] for one in (said, wanted)))
    torch.testing.assert_close(shared.running_variance, alone.running_variance)
    torch.testing.assert_close(shared.running_mean, alone.running_mean)


def test_the_loop_waits_for_a_device_only_for_what_it_records(tmp_path):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Waits(TorchDispatchMode):
        n = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.n += "_local_scalar_dense" in str(function)
            return function(*args, **(kwargs or {}))

    task, config, plan = plan_for(tmp_path)
    state = build_training(task.find_card("transformer"), config, plan, task)
    with Waits() as waits:
        for _ in steps(state.model, state.batches, state.optimizer, plan, engine=state.engine):
            pass
    assert waits.n == 2 * plan.steps  # the loss and the norm of the gradients


def test_two_launchers_meet_on_loopback_and_end_together(tmp_path):
    # As two machines do; the longer proofs, with kills and with networks of their own, are in trust/processes.py.
    port, folders = free_port(), [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        write_data(folder)
    meeting = ["--nodes", "2", "--rendezvous", f"127.0.0.1:{port}", "--job", "test", "--name", "both"]
    both = [start_launcher(folder, [*SMALL, "--steps", "5000", *meeting], 1) for folder in folders]

    def has_run():
        return [folder for folder in folders if n_steps_made(folder / "runs" / "both") >= 3]

    wait_for(lambda: has_run() or any(one.poll() is not None for one in both), 240)
    assert has_run(), [(folder / "said.txt").read_text() for folder in folders]
    workers = [pid for one in both for pid in children_of(one.pid)]
    both[0].send_signal(signal.SIGINT)
    codes = [one.wait(timeout=120) for one in both]
    (leader,) = has_run()  # one folder alone has the run, and only its launcher speaks
    assert codes[folders.index(leader)] == 130, (codes, (leader / "said.txt").read_text())
    assert "stopped by Ctrl-C" in (leader / "said.txt").read_text()
    assert (folders[1 - folders.index(leader)] / "said.txt").read_text() == ""
    assert not any(map(alive, workers))


def test_the_way_to_another_machine_is_the_kernels():
    found = route_to("127.0.0.1:29400")
    assert (found.own_address, found.is_host, found.is_loopback) == ("127.0.0.1", True, True)
    assert sys.platform != "linux" or found.interface == "lo"
    with pytest.raises(PellucidError, match="there is no way to 'no-such-machine"):
        route_to("no-such-machine.invalid:29400")


def test_folders_whose_maker_is_gone_are_swept(tmp_path):
    (tmp_path / "made-1").mkdir()
    (tmp_path / "made-2").mkdir()
    (tmp_path / "other").mkdir()
    lock = hold_folder(tmp_path / "made-2")
    assert sweep_unheld(tmp_path, "made-") == [tmp_path / "made-1"]
    os.close(lock)
    assert sweep_unheld(tmp_path, "made-") == [tmp_path / "made-2"]
    assert (tmp_path / "other").is_dir()
