"""What every test may lean on: the real command in a real process, and a real browser."""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import settings
from tests.at_length import AT_LENGTH, examples

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if "PYTEST_XDIST_WORKER" in os.environ:  # as many workers as cores: a second thread would wait for the other one's
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes is no test's business.
settings.register_profile("untimed", deadline=None, max_examples=examples(100))
settings.load_profile("untimed")

LONGEST = 900  # seconds of one test, on a machine with other things to do

# No screen, no sandbox for root, and no call home.
CHROMIUM_FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """A test that waits for something that never comes fails; it does not keep the others waiting."""

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError(f"the test took more than {LONGEST} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LONGEST)
    try:
        return (yield)
    finally:
        signal.alarm(0)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that are marked as slow are for `make trust`."""
    if not AT_LENGTH:
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[list[pytest.Collector]]:
    """Examples in docstrings are those of src: to look for some here would import all programs of the museum."""
    found: list[pytest.Collector] = yield
    return [one for one in found if type(one) is pytest.Module]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and tests stay to the end: neither the collector nor a doctor that asks it for tensors walks them again.

    What a test makes is walked as ever.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def pellucid_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The program `pellucid`, each run of which is a process that has loaded torch already; see fork_server.py."""
    folder = tmp_path_factory.mktemp("server")
    words = [sys.executable, Path(__file__).with_name("fork_server.py"), folder]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield folder / "pellucid"
        server.communicate()


@pytest.fixture
def pellucid(tmp_path: Path, pellucid_program: Path) -> Run:
    """Runs `pellucid` with the given words, in an empty folder, and gives back what it said.

    With an environment or limits of its own it is started from nothing, as `python -m pellucid`.
    """

    def run(
        *words: str, stdin: str | None = "", env: dict[str, str] | None = None, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        folder = options.pop("cwd", tmp_path)
        return subprocess.run(
            [*([sys.executable, "-m", "pellucid"] if env or options else [pellucid_program]), *words],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            cwd=folder,
            env={**os.environ, "COLUMNS": "100", **(env or {})},
            timeout=60,
            check=False,
            **options,
        )

    return run


class Answered(NamedTuple):
    """How a command ended, and what was loaded by then that takes long."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    loaded: set[str]


ONE_BY_ONE = """
import contextlib, io, json, sys
from pellucid.cli import main
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(words)
    except SystemExit as ended:
        heavy = {"torch", "numpy", "polars", "scipy", "sklearn", "PIL", "tokenizers", "resvg_py", "rich"}
        print(json.dumps([ended.code or 0, out.getvalue(), err.getvalue(), list(heavy & set(sys.modules))]))
"""


@pytest.fixture
def run_together(tmp_path: Path) -> Callable[[Iterable[Sequence[str]]], list[Answered]]:
    """Runs commands one after another in one new process: what the last has not loaded, none has."""

    def run(commands: Iterable[Sequence[str]]) -> list[Answered]:
        asked = [tuple(words) for words in commands]
        said = subprocess.run(
            [sys.executable, "-c", ONE_BY_ONE],
            input=json.dumps(asked),
            capture_output=True,
            encoding="utf-8",
            cwd=tmp_path,
            check=True,
        )
        found = [json.loads(line) for line in said.stdout.splitlines()]
        return [
            Answered(words, code, out, err, set(loaded))
            for words, (code, out, err, loaded) in zip(asked, found, strict=True)
        ]

    return run


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small tensors gain nothing from a second thread, and lose much where the machine is busy."""
    import torch

    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # for processes that the test starts
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Debian's Chromium, opened once for all tests of a process."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed, so pages and pictures cannot be opened")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield opened
        opened.close()
