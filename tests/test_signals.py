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
from pellucid.training.callbacks import stop_requests

WORKER = """
import sys, time
from pellucid.training.callbacks import stop_requests
with stop_requests() as stop:
    print("ready", flush=True)
    while not stop.is_asked:
        time.sleep(0.002)
    # Somebody who must still finish a step and save it.
    time.sleep(float(sys.argv[1]))
    print("saved", flush=True)
    try:
        stop.raise_if_asked("names", at="step 120")
    except Exception as error:
        print(error)
        sys.exit(error.exit_code)
"""


def hears_hang_ups() -> None:
    """Whatever the tests were started with: under nohup the signal would be ignored, and so it would stay."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def worker(seconds: float, **options: object) -> "subprocess.Popen[str]":
    options = {"preexec_fn": hears_hang_ups, **options}
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(seconds)], stdout=subprocess.PIPE, encoding="utf-8", **options
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [
        (signal.SIGTERM, 143, "stopped by SIGTERM at step 120. Go on with pellucid train --resume names.\n"),
        (signal.SIGINT, 130, "stopped by Ctrl-C at step 120. Go on with pellucid train --resume names.\n"),
        (signal.SIGHUP, 143, "stopped because the terminal closed at step 120. Go on with pellucid train --resume n"),
    ],
)
def test_once_is_a_request(number, code, says):
    process = worker(0.05)
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert said.startswith("saved\n" + says)
    assert process.returncode == code


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
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with stop_requests() as stop:
        assert (stop.is_asked, stop.exit_code) == (False, 0)
        stop.raise_if_asked("x")
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stop.is_asked, stop.exit_code) == (True, 143)
        with pytest.raises(Stopped) as caught:
            stop.raise_if_asked("x")
    assert caught.value.exit_code == 143
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_a_clock_that_jumps_makes_no_second_ctrl_c(monkeypatch):
    with stop_requests() as stop:
        for now in (1e9, 0.0, -1e9):
            monkeypatch.setattr(time, "time", lambda now=now: now)
        stop.ask(signal.SIGINT)
        slow = time.monotonic() + 2.5
        monkeypatch.setattr(time, "monotonic", lambda: slow)
        stop.ask(signal.SIGINT)
        assert stop.exit_code == 130


def test_another_thread_is_never_asked():
    seen = []

    def work() -> None:
        with stop_requests() as stop:
            seen.append(stop.is_asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
