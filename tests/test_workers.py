"""Independent pieces of work at once: every result comes, whoever made it, and a killed worker costs only time."""

import importlib.util
import time

import pytest
from trust.pieces import die_always, die_once, square

from pellucid.errors import PellucidError
from pellucid.training.workers import WorkerOptions, run_pieces


@pytest.mark.parametrize("n", [1, 2])
def test_every_result_comes_with_its_number(n):
    pieces = [(number,) for number in range(5)]
    found = dict(run_pieces(square, pieces, WorkerOptions(workers=n)))
    assert found == {number: number**2 for number in range(5)}


def test_a_killed_worker_is_replaced_and_nothing_is_missing(tmp_path):
    pieces = [(str(tmp_path / "died"), number) for number in range(4)]
    assert dict(run_pieces(die_once, pieces, WorkerOptions(workers=2))) == {0: 0, 1: 1, 2: 4, 3: 9}
    assert (tmp_path / "died").exists()


def test_a_piece_that_kills_every_worker_is_told_in_one_line():
    with pytest.raises(PellucidError, match="the worker of piece 1 of 1 was gone 4 times"):
        list(run_pieces(die_always, [(1,)], WorkerOptions(workers=2)))


def test_nothing_is_begun_after_the_deadline_or_once_it_is_stopped():
    assert list(run_pieces(square, [(1,), (2,)], WorkerOptions(workers=1), deadline=time.monotonic() - 1)) == []
    assert list(run_pieces(square, [(1,), (2,)], WorkerOptions(workers=1), is_stopped=lambda: True)) == []


def test_what_a_piece_refuses_is_told_as_it_is():
    with pytest.raises(TypeError):
        list(run_pieces(square, [("no number",)], WorkerOptions(workers=1)))


def test_places_that_do_not_exist_are_refused():
    with pytest.raises(PellucidError, match="ray"):
        WorkerOptions(on="rays")
    with pytest.raises(PellucidError, match="on='ray'"):
        WorkerOptions(address="head:6379")


def test_ray_gives_the_same_results():
    pytest.importorskip("ray", reason="Ray is not installed")
    pieces = [(number,) for number in range(3)]
    assert dict(run_pieces(square, pieces, WorkerOptions(on="ray", workers=1))) == {0: 0, 1: 1, 2: 4}


def test_ray_missing_is_one_line(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PellucidError, match=r"Ray is not installed\. Install it: pip install \"pellucid\[ray\]\""):
        WorkerOptions(on="ray")
