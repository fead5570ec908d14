"""What another process works out while torch is loaded is what this one would have worked out."""

import os
import pickle
import signal
import time

import numpy as np
import pytest
from trust.processes import alive, wait_for

from pellucid.data.options import DataOptions, open_with
from pellucid.errors import PellucidError
from pellucid.training.forked_work import ForkedWork
from pellucid.training.options import TrainOptions
from pellucid.training.tasks import counted_sides, open_task
from pellucid.training.tasks.counted_sides import CountedSides, count_beside


def test_the_result_comes_from_the_other_process():
    assert ForkedWork(os.getpid).result() != os.getpid()


def test_what_does_not_come_is_worked_out_here():
    here = os.getpid()

    def work() -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    assert ForkedWork(work).result() == here
    assert ForkedWork(lambda: [lambda: here]).result()[0]() == here  # a function cannot be handed over


def test_the_other_process_ends_when_nobody_is_left_to_ask(tmp_path):
    told = tmp_path / "told"

    def work() -> bytes:
        parent = os.getppid()
        told.write_text(str(os.getpid()))
        while os.getppid() == parent:
            time.sleep(0.01)
        return bytes(1 << 20)  # more than a pipe holds

    if not (asking := os.fork()):
        ForkedWork(work)
        time.sleep(600)
    assert wait_for(lambda: told.exists() and told.read_text(), 60)
    os.kill(asking, signal.SIGKILL)
    os.waitpid(asking, 0)
    child = int(told.read_text())
    has_ended = wait_for(lambda: not alive(child), 10)
    if not has_ended:
        os.kill(child, signal.SIGKILL)
    assert has_ended


def test_a_mistake_of_the_user_is_raised_where_it_is_asked_for(capfd):
    def work() -> None:
        raise PellucidError("this is no list", fix="Give another")

    with pytest.raises(PellucidError, match="no list"):
        ForkedWork(work).result()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("tokens", ["characters", "bpe"])
@pytest.mark.parametrize("kind", ["list", "text"])
def test_what_was_counted_goes_along(kind, tokens, tmp_path, monkeypatch):
    words = [f"{first}{second}{third}" for first in "abcdef" for second in "ghijk" for third in ("a", "ba", "cab")]
    (tmp_path / "own.txt").write_text("\n".join(words) if kind == "list" else " ".join(words * 20))
    options = DataOptions(str(tmp_path / "own.txt"), kind=kind, tokens=tokens)
    data = open_with(options)
    monkeypatch.setattr(counted_sides, "is_only_training", lambda: True)
    monkeypatch.setattr(counted_sides, "can_fork", lambda: True)
    counting = count_beside(data, options, TrainOptions(model="transformer", steps=1))
    there, here = counting.result(), CountedSides.split(data, options)
    assert {"counts", "table"} <= set(vars(there))
    assert np.array_equal(there.table, here.table)
    assert there.sides.vocabulary.tokens == here.sides.vocabulary.tokens
    task, usual = open_task(options, data, counted=there), open_task(options, data)
    assert task.facts == usual.facts
    assert [one.rung._replace(seconds=0) for one in task.fit_baselines(None)] == [
        one.rung._replace(seconds=0) for one in usual.fit_baselines(None)
    ]


def test_only_a_process_that_was_started_to_train_is_forked():
    options = DataOptions("names")
    assert count_beside(open_with(options), options, TrainOptions(model="transformer", steps=1)) is None


def test_counted_sides_can_be_handed_over():
    counted = CountedSides.split(open_with(DataOptions("names")), DataOptions("names"))
    again = pickle.loads(pickle.dumps(counted))
    assert np.array_equal(again.sides.train.tokens, counted.sides.train.tokens)
