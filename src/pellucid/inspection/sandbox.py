"""Runs what looks at someone's code in a process of its own, and brings back plain records; no torch here.

Their code may loop for ever, exit, fork, print without end or ask for all memory. It is killed with all that it
started at the time limit or when it prints too much, its memory is bounded, it reads nothing from the keyboard, and
this process never imports it. It is no prison: it may do to files and networks what its owner may.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.errors import ExpressionError, PellucidError, quoted

MOST_PRINTED = 32 << 20  # bytes of what their code prints
MOST_ANSWERED = 256 << 20
HEADER = 20  # digits of the length that an answer begins with


class ChildAnswer(NamedTuple):
    """What came back."""

    plain: Any
    n_printed: int  # bytes that their code printed


def run_in_child(entry: str, job: Mapping[str, Any], *, seconds: float, folder: Path, whose: str) -> ChildAnswer:
    """What a function of ours says of a job, run in a child. entry: "pellucid.room.file:function", of the job alone.

    folder: where the child works. whose: what the user called their code, for messages. An error of the user's that the
    function raises is raised here too.
    """
    read_end, write_end = os.pipe()
    child = subprocess.Popen(
        # -P: a torch.py or random.py in the folder is not imported in place of the real one.
        [sys.executable, "-P", "-m", "pellucid.inspection.sandbox", entry, str(write_end)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(write_end,),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": _absolute(os.environ.get("PYTHONPATH", ""))},
        start_new_session=True,
    )
    os.close(write_end)
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(BrokenPipeError), child.stdin:  # it has ended already; why is told below
            child.stdin.write(json.dumps(dict(job)).encode())
        answer, printed, n_printed = _listen(child, read_end, child.stdout.fileno(), seconds, whose)
    finally:
        _end(child)
        os.close(read_end)
        if child.stdout is not None:
            child.stdout.close()
    if answer is None:
        raise _silent(child.returncode, printed, whose)
    return ChildAnswer(_read_answer(answer), n_printed)


def _listen(
    child: subprocess.Popen[bytes], answers: int, prints: int, seconds: float, whose: str
) -> tuple[bytes | None, bytes, int]:
    """The answer, or None where the child ended without one; the end of what was printed, and how much it was."""
    deadline = time.monotonic() + seconds
    answer, printed, n_printed = b"", b"", 0
    with selectors.DefaultSelector() as selector:
        for end in (answers, prints):
            os.set_blocking(end, False)
            selector.register(end, selectors.EVENT_READ)
        while True:
            has_ended = _has_ended(child)
            for key, _ in selector.select(0 if has_ended else 0.05):
                read = os.read(key.fd, 1 << 16)
                if not read:
                    selector.unregister(key.fd)
                elif key.fd == answers:
                    answer += read
                else:
                    n_printed += len(read)
                    printed = (printed + read)[-4096:]
            # By its length, not by its end: what was forked holds the pipe open.
            if len(answer) >= HEADER and len(answer) >= HEADER + int(answer[:HEADER]):
                return answer[HEADER:], printed, n_printed
            if n_printed > MOST_PRINTED or len(answer) > MOST_ANSWERED:
                raise PellucidError(
                    f"{quoted(whose)} printed more than {MOST_PRINTED >> 20} MB", fix="Take the prints out of its loops"
                )
            if time.monotonic() > deadline:
                raise PellucidError(
                    f"{quoted(whose)} had not come to its end after {seconds:g} s",
                    fix="Look for an endless loop, or give it more time with {timeout}",
                    options={"timeout": None},
                )
            if has_ended:
                return None, printed, n_printed


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether it has, without burying it: its number must stay its own until its children are gone too."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill it with everything that it started, and bury it."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        child.kill()
    child.wait()


def _silent(code: int, printed: bytes, whose: str) -> PellucidError:
    last = printed.decode("utf-8", "replace").strip().splitlines()[-1:]
    said = f" after printing {quoted(last[0], 60)}" if last else ""
    if code >= 0:
        return PellucidError(
            f"{quoted(whose)} ended its process with exit code {code}{said}",
            fix='Put what exits behind if __name__ == "__main__"',
        )
    name = signal.Signals(-code).name if -code in {one.value for one in signal.Signals} else f"signal {-code}"
    return PellucidError(
        f"{quoted(whose)} was ended by {name}{said}", fix="Run it on its own with python, to see where that happens"
    )


def _read_answer(answer: bytes) -> Any:
    """What the child says, or the error that it met."""
    said = json.loads(answer)
    if "answer" in said:
        return said["answer"]
    if "bug" in said:
        raise RuntimeError(f"in the child:\n{said['bug']}")
    error = said["error"]
    if error["text"] is None:
        met = PellucidError(error["what"], where=error["where"], fix=error["fix"], options=error["options"])
    else:
        met = ExpressionError(error["what"], text=error["text"], column=error["column"], fix=error["fix"])
        met.where = error["where"]
    met.exit_code = error["exit_code"]
    raise met


def _absolute(paths: str) -> str:
    """A path that was relative to this process's folder would lead elsewhere from the child's."""
    return os.pathsep.join(str(Path(path).resolve()) for path in paths.split(os.pathsep) if path)


# The child: bounds itself, does its job, and hands the answer over as JSON. The job comes on standard input, which is
# closed then.

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
