"""What every test may lean on: the real command in a real process."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def pellucid(tmp_path: Path) -> Run:
    """Runs `pellucid` with the given words, in an empty folder, and gives back what it said."""

    def run(
        *words: str, stdin: str | None = "", env: dict[str, str] | None = None, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "pellucid.cli", *words],
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
