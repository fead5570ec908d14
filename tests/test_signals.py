"""What signals do to a process that holds something it must not lose."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from pellucid.cli.contract import steady_output
from pellucid.errors import Stopped
from pellucid.training.callbacks import EXIT_CODES, stop_requests

WORKER = """
import sys, time
from pellucid.training.callbacks import stop_requests
try:
    with stop_requests() as stop:
        if sys.argv[2] == "before":
            print("ready", flush=True)
            time.sleep(60)
        with stop.held("names"):
            print("ready", flush=True)
            while sys.argv[2] == "during" and not stop.is_asked:
                time.sleep(0.002)
            # Somebody who must still finish a step and save it.
            time.sleep(float(sys.argv[1]))
            print("saved", flush=True)
            if sys.argv[2] == "during":
                stop.raise_if_asked("names", at="step 120")
        print("after", flush=True)
        time.sleep(60)
except Exception as error:
    print(error)
    sys.exit(error.exit_code)
"""


def hears_signals() -> None:
    """Whatever the tests were started with: under nohup or in the background they would be ignored, and so stay."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def worker(seconds: float, when: str = "during", **options: object) -> "subprocess.Popen[str]":
    options = {"preexec_fn": hears_signals, **options}
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(seconds), when], stdout=subprocess.PIPE, encoding="utf-8", **options
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [
        (signal.SIGTERM, 143, "stopped by SIGTERM at step 120. Go on with pellucid train --resume names.\n"),
        (signal.SIGINT, 130, "stopped by Ctrl-C at step 120. Go on with pellucid train --resume names.\n"),
        (signal.SIGHUP, 129, "stopped because the terminal closed at step 120. Go on with pellucid train --resume n"),
        (signal.SIGQUIT, 131, "stopped by SIGQUIT at step 120. Go on with pellucid train --resume names.\n"),
    ],
)
def test_once_is_a_request(number, code, says):
    process = worker(0.05)
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert said.startswith("saved\n" + says)
    assert process.returncode == code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)])
def test_where_nothing_can_be_lost_it_ends_at_once(number, code):
    process = worker(0, when="before")
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert said.endswith(". Run the same command to start again.\n")
    assert process.returncode == code
    # All steps are made and saved: what comes after is made again from there.
    process = worker(0, when="after")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["saved\n", "after\n"]
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert said.endswith(". Go on with pellucid train --resume names.\n")
    assert process.returncode == code


def test_a_request_during_the_last_step_is_not_forgotten():
    process = worker(0.3, when="after")
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=30)
    assert said == "saved\nstopped by SIGTERM. Go on with pellucid train --resume names.\n"
    assert process.returncode == 143


CLOSED_TERMINAL = """
import os, signal, sys, time
from pellucid.cli.contract import answer, steady_output
from pellucid.training.callbacks import stop_requests
def work():
    with steady_output(), stop_requests() as stop, stop.held("names"):
        print("ready", flush=True)
        while not stop.is_asked:
            time.sleep(0.002)
        # A progress line, to a terminal that is no more.
        print("step 120", flush=True), print("step 120", file=sys.stderr, flush=True)
        open(sys.argv[1], "w").write("saved")
        stop.raise_if_asked("names", at="step 120")
code = answer(work, [])
open(sys.argv[1], "a").write(f" and ended with {code}")
"""


def test_a_terminal_that_closes(tmp_path):
    pid, terminal = os.forkpty()
    if not pid:
        hears_signals()
        os.execv(sys.executable, [sys.executable, "-c", CLOSED_TERMINAL, str(tmp_path / "told")])
    assert os.read(terminal, 100) == b"ready\r\n"
    os.close(terminal)
    os.waitpid(pid, 0)
    assert (tmp_path / "told").read_text() == "saved and ended with 129"


def test_ctrl_c_twice_ends_at_once():
    process = worker(60)
    process.send_signal(signal.SIGINT)
    # The first must have been handled before the second comes, or the kernel makes one of both.
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert said == ""
    assert process.returncode == 130


def test_other_signals_after_the_first_change_nothing():
    process = worker(0.3)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
        time.sleep(0.02)
    said, _ = process.communicate(timeout=30)
    assert said.startswith("saved\nstopped by SIGTERM")
    assert process.returncode == 143


def test_what_the_parent_ignores_stays_ignored():
    process = worker(0, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143


def test_a_process_that_slept_goes_on():
    process = worker(0.05)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=30)
    assert said.startswith("saved\n")
    assert process.returncode == 143


def test_nobody_reads_any_more():
    code = (
        "import sys, click; from pellucid.cli.contract import steady_output\n"
        "with steady_output():\n"
        "    for n in range(5000): print(f'line {n}', flush=n % 3 == 0)\n"
        "    click.echo('to nowhere')\n"
        "print('to nowhere', flush=True); print('done', file=sys.stderr)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "line 0\n"
    process.stdout.close()
    assert process.stderr.read() == "done\n"
    assert process.wait() == 0
    process.stderr.close()


def test_what_is_read_comes_in_order_and_whole(capsys):
    print("before")
    with steady_output():
        print("während", end="")
        print("error", file=sys.stderr)
    print(" danach")
    assert capsys.readouterr() == ("before\nwährend danach\n", "error\n")


def test_handlers_are_put_back():
    def work() -> None:
        with stop_requests() as stop, stop.held("x"):
            assert (stop.is_asked, stop.exit_code) == (False, 0)
            stop.raise_if_asked("x")
            os.kill(os.getpid(), signal.SIGTERM)
            assert (stop.is_asked, stop.exit_code) == (True, 143)

    before = [signal.getsignal(number) for number in EXIT_CODES]
    with pytest.raises(Stopped) as caught:
        work()
    assert caught.value.exit_code == 143
    assert [signal.getsignal(number) for number in EXIT_CODES] == before


def test_a_clock_that_jumps_makes_no_second_ctrl_c(monkeypatch):
    def work() -> None:
        with stop_requests() as stop, stop.held("x"):
            for now in (1e9, 0.0, -1e9):
                monkeypatch.setattr(time, "time", lambda now=now: now)
            stop.ask(signal.SIGINT)
            slow = time.monotonic() + 2.5
            monkeypatch.setattr(time, "monotonic", lambda: slow)
            stop.ask(signal.SIGINT)

    with pytest.raises(Stopped) as caught:
        work()
    assert caught.value.exit_code == 130


def test_another_thread_is_never_asked():
    seen = []

    def work() -> None:
        with stop_requests() as stop:
            seen.append(stop.is_asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
