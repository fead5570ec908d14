"""`pellucid lab`: all of pellucid in the browser, on this machine alone."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import click

from pellucid.cli.options import command_named
from pellucid.errors import PellucidError


@command_named("lab", "pellucid lab", "pellucid lab --no-open --port 8800", "pellucid lab --runs ~/project/runs")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen at; by default a free one.")
@click.option("--host", default="127.0.0.1", help="Address to listen at; another than this machine needs --i-know.")
@click.option("--i-know", is_flag=True, help="With --host: others on the network may reach it, unencrypted.")
@click.option("--no-open", is_flag=True, help="Do not open the browser.")
@click.option("--runs", metavar="FOLDER", default="runs", help="Folder that runs are kept in; by default ./runs.")
def command(port: int, host: str, i_know: bool, no_open: bool, runs: str) -> None:
    """Everything in the browser: train and watch it live, see into runs, walk decoding trees, derive, x-ray, learn.

    It listens on this machine alone, and prints a link with a token that works once. Files of the folder it is started
    in can be trained on; a training is a process of its own and goes on when the lab ends. Ctrl-C ends the lab.
    """
    from pellucid.http.server import HttpServer, Limits, is_loopback, open_listener

    if not is_loopback(host) and not i_know:
        raise PellucidError(
            f"--host {host} would let others on the network in, and what is sent is not encrypted",
            fix="Leave it out, or add --i-know",
        )
    base = Path(runs).expanduser()
    if base.exists() and not base.is_dir():
        raise PellucidError(f"{base} is not a folder", fix="Name the folder that runs are kept in")
    from pellucid.lab.app import Lab, build_lab
    from pellucid.lab.memory import share_one_heap
    from pellucid.lab.session import Session

    share_one_heap()
    listener = open_listener(host, port)
    number = int(listener.getsockname()[1])
    shown = f"[{host}]" if ":" in host else host

    def say_next(token: str) -> None:
        _say(f"The link was used. For another browser: http://{shown}:{number}/?token={token}")

    session = Session(number, say_next)
    lab = Lab(base, Path.cwd(), session)
    server = HttpServer(build_lab(lab, listener, [] if is_loopback(host) else [host]), listener, Limits())
    lab.is_ending = lambda: server.is_ending

    def ready() -> None:
        link = f"http://{shown}:{number}/?token={session.token}"
        _say(f"pellucid lab is at {link}", "The link works once. Ctrl-C ends the lab; trainings go on.")
        if not no_open:
            import webbrowser

            if not webbrowser.open(link):
                _say("No browser could be opened: open the link yourself.")

    ended_by = server.run(ready)
    is_idle = lab.close()
    going_on = lab.trainings.under_way()
    if going_on:
        _say(f"Still training: {', '.join(going_on)}. pellucid lab shows it again.")
    code = 143 if ended_by == signal.SIGTERM else 0
    if not is_idle:  # Python would wait for its thread
        os._exit(code)
    if code:
        sys.exit(code)


def _say(*lines: str) -> None:
    for line in lines:
        click.echo(line)
    sys.stdout.flush()
