"""Slow connections and many requests, in short: trust/lab_slow.py and trust/lab_soak.py are the same at length."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from trust import lab_slow, lab_soak
from trust.lab_slow import LabProcess
from trust.tiny_runs import made


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LabProcess]:
    made(tmp_path, lab_soak.RUN)
    (tmp_path / "own.txt").write_text("anna\nemma\nnell\n" * 20)
    process = LabProcess(tmp_path)
    yield process
    if process.process.poll() is None:
        process.end()


def test_slow_connections_are_let_go_of_and_shut_nobody_out(lab: LabProcess):
    """One of each shape, eight times: every visit is answered, and the server has no connection left of theirs."""
    with ThreadPoolExecutor(1) as apart:  # a browser's tests may have left their event loop in this thread
        found = apart.submit(asyncio.run, lab_slow.measure(lab, 8 * len(lab_slow.SHAPES))).result()
    assert found["most at once"] > 0
    assert found["visits"] > 10
    assert found["not answered"] == 0
    assert found["gone after"] < 3 * lab_slow.ALL_GONE  # where measure would have given up
    assert lab.end() == 143


def test_many_requests_leave_no_thread_and_no_open_file(lab: LabProcess):
    """Visitors ask for everything twice; after the second time there is nothing that was not there after the first."""

    def visit(seed: int) -> Counter[int]:
        soakers = [lab_soak.Soaker(lab, 1000 * seed + number, 100) for number in range(lab_soak.VISITORS)]
        for soaker in soakers:
            soaker.start()
        for soaker in soakers:
            soaker.join()
        assert [problem for soaker in soakers for problem in soaker.wrong] == []
        return sum((soaker.by_status for soaker in soakers), Counter())

    visit(1)
    _, n_threads, n_files = lab.sizes()
    statuses = visit(2)
    assert statuses.total() == 100 * lab_soak.VISITORS
    assert statuses[200] > 0
    assert statuses[404] > 0
    after = lab.sizes()
    assert after[1] <= n_threads + 2  # two that the first visit may not have needed yet
    assert after[2] <= n_files + lab_soak.VISITORS
    assert lab.end() == 143
