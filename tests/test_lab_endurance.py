"""Slow connections and many requests, in short: trust/lab_slow.py and trust/lab_soak.py are the same at length."""

import asyncio
import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trust import lab_slow, lab_soak
from trust.lab_slow import LabProcess

from pellucid.http.server import open_listener
from pellucid.lab.app import Lab, build_lab
from pellucid.lab.memory import BETWEEN_RELEASES, ReleasesMemory
from pellucid.lab.session import Session


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LabProcess]:
    lab_soak.make_runs(tmp_path)
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


FRAGMENTED = """
import sys
from pathlib import Path
from pellucid.lab import memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

memory.share_one_heap()
blocks = [bytes(20_000) for _ in range(5_000)]
blocks = blocks[::50]  # what is left lies far apart, and the last of it at the end
before = resident()
memory.release_freed_memory()
print(before - resident())
"""


def test_freed_memory_goes_back_to_the_system():
    said = subprocess.run([sys.executable, "-c", FRAGMENTED], capture_output=True, text=True, check=True).stdout
    assert int(said) > 50e6  # of 98 MB that were freed


def test_freed_memory_is_given_back_now_and_then_whatever_the_answers_are():
    """The thousandth request, failed or not, has it done."""
    released: list[int] = []
    n_asked = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal n_asked
        n_asked += 1
        if n_asked % 2 == 0:
            raise ValueError("a request that failed")

    async def ask_often() -> None:
        tidy = ReleasesMemory(app, lambda: released.append(n_asked))
        for _ in range(2 * BETWEEN_RELEASES + 1):
            with contextlib.suppress(ValueError):
                await tidy({}, None, None)  # type: ignore[arg-type]  # the app reads none of them

    with ThreadPoolExecutor(1) as apart:  # a browser's tests may have left their event loop in this thread
        apart.submit(asyncio.run, ask_often()).result()
    assert released == [BETWEEN_RELEASES, 2 * BETWEEN_RELEASES]


def test_the_labs_own_app_gives_memory_back(tmp_path: Path):
    with open_listener("127.0.0.1", 0) as listener:
        lab = Lab(tmp_path / "runs", tmp_path, Session(listener.getsockname()[1]))
        assert isinstance(build_lab(lab, listener), ReleasesMemory)
        lab.close()
