"""A process that has loaded everything, and forks for each command: `pellucid` as a real process, without its start.

`python tests/fork_server.py FOLDER` makes FOLDER/pellucid, a program that hands its words, its folder, its environment
and its three streams to a fork of the server and ends with the fork's exit code. What a process is starts over in each
fork: memory, streams, threads. What a fork cannot show, such as which modules are loaded or what a signal does, is
tested with `python -m pellucid`. The server ends when its standard input does.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
from pathlib import Path

CLIENT = """#!{python} -IS
import json, os, socket, sys
door = socket.socket(socket.AF_UNIX)
door.connect({door!r})
request = {{"words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ), "python": {own_python!r}}}
here, alive = os.pipe()  # is closed when this process ends, however it ends
socket.send_fds(door, [b"p"], [0, 1, 2, here])
door.sendall(json.dumps(request).encode())
door.shutdown(socket.SHUT_WR)
code = door.recv(1)
sys.exit(code[0] if code else "the fork of pellucid died")
"""

# The Python of the forks, for exports that a lab begins: they are forks too. All else is a new process.
PYTHON = """#!{python} -IS
import os, sys
if sys.argv[1:5] == ["-P", "-m", "pellucid", "export"]:
    os.execv({client!r}, [{client!r}, *sys.argv[4:]])
os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""


# Whatever a command may load, but nothing that starts a thread, which a fork would not have: polars does.
# pellucid.training comes first: it sets how OpenMP waits, which torch reads when it is loaded.
LOADED = (
    *("pellucid.training", "torch._dynamo", "sklearn.ensemble", "pellucid.training.run", "pellucid.figures.show"),
    *("pellucid.api.claims", "pellucid.api.derive", "pellucid.api.draw", "pellucid.api.split", "pellucid.api.train"),
    *("pellucid.decoding.beam", "pellucid.decoding.continuous", "pellucid.figures.progress"),
    *("pellucid.figures.report_page", "pellucid.inspection.doctor", "pellucid.models.sequences.transformer"),
)
# All files of these: whoever asks for one card has all.
CARDS = (
    *("pellucid.claims", "pellucid.data.sets", "pellucid.figures.drawings", "pellucid.inspection.rules"),
    "pellucid.lessons",
)


def run_command(connection: socket.socket, streams: list[int]) -> None:
    """In a fork: become the process that the client asked for, and tell it the exit code."""
    from pellucid.cli import main

    request = json.loads(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["pellucid", *request["words"]]
    sys.executable = request["python"]
    code = 70
    try:
        main(request["words"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    finally:
        sys.stdout.flush()
        connection.send(bytes([code]))
        os._exit(code)


def serve(folder: Path) -> None:
    door = folder / "door"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(door))
    listening.listen()
    from pellucid.cli import COMMANDS

    for name in [*LOADED, *(f"pellucid.cli.{name}" for name in COMMANDS)]:
        importlib.import_module(name)
    for name in CARDS:
        for found in pkgutil.iter_modules(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(found.name)
    gc.collect()
    gc.freeze()  # no fork walks what is here, nor copies it by that
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    client, python = folder / "pellucid", folder / "python"
    client.write_text(CLIENT.format(python=sys.executable, door=str(door), own_python=str(python)))
    python.write_text(PYTHON.format(python=sys.executable, client=str(client)))
    for program in (client, python):
        program.chmod(0o755)
    print("ready", flush=True)
    waiting = select.poll()
    waiting.register(listening, select.POLLIN)
    waiting.register(sys.stdin, select.POLLIN)
    forks: dict[int, int] = {}
    while True:
        for ready, _ in waiting.poll():
            if ready == sys.stdin.fileno():
                os._exit(0)  # there is nothing to put away, and torch takes seconds for it
            elif ready == listening.fileno():
                connection, _ = listening.accept()
                *streams, client = socket.recv_fds(connection, 1, 4)[1]
                forks[client] = os.fork()
                if not forks[client]:
                    os.setpgid(0, 0)
                    listening.close()
                    run_command(connection, streams)
                connection.close()
                for stream in streams:
                    os.close(stream)
                waiting.register(client, 0)  # tells only that nobody holds the other end
            else:
                # The client has its answer, or was killed by a test that would not wait any longer.
                waiting.unregister(ready)
                os.close(ready)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(forks.pop(ready), signal.SIGKILL)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
