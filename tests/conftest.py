"""What every test may lean on: the real command in a real process, and a real browser."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# No screen, no sandbox for root, and no call home.
CHROMIUM_FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def pellucid(tmp_path: Path) -> Run:
    """Runs `pellucid` with the given words, in an empty folder, and gives back what it said."""

    def run(
        *words: str, stdin: str | None = "", env: dict[str, str] | None = None, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "pellucid", *words],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            cwd=options.pop("cwd", tmp_path),
            env={**os.environ, "COLUMNS": "100", **(env or {})},
            timeout=60,
            check=False,
            **options,
        )

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
