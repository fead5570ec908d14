"""The process in which someone's code is run: bounds itself, does its job, and hands the answer over as JSON.

Started by `loading` with the name of one of our functions; the job comes on standard input, which is closed then.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from pellucid.errors import ExpressionError, PellucidError
from pellucid.inspection.sandbox.process import HEADER

SHARE_OF_MEMORY = 0.75
MAPPED_BY_TORCH = 8 << 30  # bytes of addresses that libraries take without using them
MORE_PROCESSES = 256  # than the user has at the start, threads included


def run_job(entry: str, pipe: int) -> None:
    """Do the job, and say what came of it."""
    job = json.loads(sys.stdin.buffer.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.set_inheritable(pipe, False)
    sys.dont_write_bytecode = True  # nothing is left behind in their folder
    bound_itself()
    module, _, function = entry.partition(":")
    assert module.startswith("pellucid."), "only our own functions are asked"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = {"answer": getattr(importlib.import_module(module), function)(job)}
    except PellucidError as error:
        answer = {"error": plain_error(error)}
    except BaseException:
        answer = {"bug": traceback.format_exc()}
    said = json.dumps(answer, allow_nan=False).encode()
    with os.fdopen(pipe, "wb") as out:
        out.write(f"{len(said):0{HEADER}d}".encode() + said)
    # Threads and exit handlers of theirs are not waited for.
    os._exit(0)


def plain_error(error: PellucidError) -> dict[str, Any]:
    """An error as what JSON can hold."""
    is_of_text = isinstance(error, ExpressionError)
    return {
        "what": error.what,
        "where": error.where,
        "fix": error.fix,
        "exit_code": error.exit_code,
        "options": {name: None if value is None else str(value) for name, value in error.options.items()},
        "text": error.text if is_of_text else None,  # type: ignore[attr-defined]  # only these have one
        "column": error.column if is_of_text else None,  # type: ignore[attr-defined]
    }


def bound_itself() -> None:
    """No more memory than most of the machine's, no core files, and not endlessly many processes."""
    memory = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * SHARE_OF_MEMORY) + MAPPED_BY_TORCH
    bounds = [(resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)]
    if n_tasks := _tasks_of_user():
        bounds.append((resource.RLIMIT_NPROC, n_tasks + MORE_PROCESSES))
    for what, most in bounds:
        hard = resource.getrlimit(what)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (limit, limit))


def memory_bound() -> int:
    """Bytes that this process may have."""
    return resource.getrlimit(resource.RLIMIT_AS)[0]


def _tasks_of_user() -> int:
    """Processes and threads of this user; 0 where that cannot be told."""
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                found += len(os.listdir(folder / "task"))
    return found


if __name__ == "__main__":
    run_job(sys.argv[1], int(sys.argv[2]))
