"""Starting the processes of one training: `pellucid train --processes N`, by torch's own elastic launcher.

Each process is the same command again, with its rank in the environment. When one dies the launcher ends the others and
starts all of them again, a few times, and rank 0 goes on from the last checkpoint of the run that was being made. What
ends on purpose (a mistake in the call, Ctrl-C, a full disk) is not tried again. Nothing heavy is loaded before it is
clear that there is something to start.
"""

from __future__ import annotations

import ctypes
import functools
import ipaddress
import logging
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pellucid.errors import PellucidError
from pellucid.options import check_options, option
from pellucid.runs.disk import hold_folder, sweep_unheld

RESTARTS = 3  # of all processes, after one of them was lost
SHUTDOWN_SECONDS = 60  # that processes have to finish their step and save
MEETING_SECONDS = 60  # that machines wait for each other, and
REACHING_SECONDS = 10  # for an address that does not answer, and
PARTING_SECONDS = 20  # for each other at the end
OUTCOME = "PELLUCID_OUTCOME"  # the file in which rank 0 says how it ended
FOLDER = "pellucid-launch-"  # of a launcher, in the folder for temporary files
LOG_LEVEL = "TORCH_CPP_LOG_LEVEL"  # read when torch is loaded
LAUNCHER = "PELLUCID_LAUNCHER"  # the pid of the launcher, for its workers
WATCH = "parent watch"  # a thread
PARENT_SECONDS = 0.5  # between two looks at whether the parent is still there, and
GRACE_SECONDS = 10.0  # to save after it is gone
TELLING_SECONDS = 5.0  # that the first process has to say how it ended, after it ended
PR_SET_PDEATHSIG = 1  # of Linux's prctl
SIOCGIFADDR = 0x8915  # of Linux's ioctl: the address of a network device
EXIT_LOST, EXIT_BUG = 75, 70  # another process is gone, for the launcher; a bug
ENDPOINT = re.compile(r"[A-Za-z0-9_.:\[\]-]+:[0-9]{1,5}")


@dataclass(frozen=True)
class LaunchOptions:
    """How many processes train together, and where they meet."""

    processes: int = option(
        1, "Processes on this machine that share every batch; results agree with one to the last digits.", maximum=1024
    )
    nodes: int = option(1, "Machines that train together, each started with the same command.", maximum=4096)
    rendezvous: str = option(
        "", "Address where machines meet, HOST:PORT of one of them.", example="host:29400", value_name="HOST:PORT"
    )
    job: str = option("", "Name that machines of one training share; needed where several trainings use one address.")

    def __post_init__(self) -> None:
        check_options(self)
        if self.nodes > 1 and not self.rendezvous:
            raise PellucidError(
                f"{self.nodes} machines need an address to meet at",
                fix="Add {rendezvous}, of one of them",
                options={"rendezvous": "host:29400"},
            )
        if self.rendezvous and not ENDPOINT.fullmatch(self.rendezvous):
            raise PellucidError(
                f"{self.rendezvous!r} is no address of a machine and a port",
                fix="Write it as {rendezvous}",
                options={"rendezvous": "host:29400"},
            )

    @property
    def is_several(self) -> bool:
        return self.processes > 1 or self.nodes > 1

    def require_cores(self) -> None:
        """Refuse more processes than there are cores: each would wait for the others."""
        cores = len(os.sched_getaffinity(0))
        if self.processes > cores and os.environ.get("PELLUCID_OVERSUBSCRIBE") != "1":
            raise PellucidError(
                f"{self.processes} processes were asked for, and this machine has {cores} "
                f"core{'s' * (cores != 1)} for them",
                fix="Choose {processes} or fewer, or set PELLUCID_OVERSUBSCRIBE=1",
                options={"processes": cores},
            )


def is_worker() -> bool:
    """Whether this process was started by torchrun, or by the launcher here."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def is_follower() -> bool:
    """Whether another process of the same training leads, and speaks."""
    return is_worker() and os.environ["RANK"] != "0"


def launch_id() -> str:
    """What a launcher calls the training, the same before and after it started its processes again."""
    return os.environ.get("TORCHELASTIC_RUN_ID", "")


def restarted_run(base: Path) -> Path | None:
    """The unfinished run that this launcher's processes were making before they were started again; None: none was."""
    if not int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) or not launch_id() or not base.is_dir():
        return None
    from pellucid.runs import holds_run, is_finished, read_record

    found = []
    for path in base.iterdir():
        if holds_run(path) and not is_finished(path):
            try:
                record = read_record(path)
            except PellucidError:
                continue
            if record.get("launch") == launch_id():
                found.append(path)
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def tell_outcome(exit_code: int) -> int:
    """What a worker ends with: 0 where it told its launcher of an ending that is no accident, else the code itself."""
    place = os.environ.get(OUTCOME)
    if not place or not is_worker() or exit_code == EXIT_BUG:
        return exit_code
    if exit_code == EXIT_LOST:
        # One that follows also notices when the first ends on purpose; then that has been told, or will be at once.
        until = time.monotonic() + TELLING_SECONDS * is_follower()
        while not Path(place).exists() and time.monotonic() < until:
            time.sleep(0.05)
        return 0 if Path(place).exists() else exit_code
    if not is_follower():
        with suppress(FileNotFoundError):  # the launcher is gone, and its folder was swept
            Path(place).write_text(str(exit_code), encoding="ascii")
    return 0


def launch(arguments: Sequence[str], options: LaunchOptions) -> int:
    """Run this command in several processes, and give what it ended with."""
    options.require_cores()
    is_here = options.nodes == 1
    route = None if is_here else route_to(options.rendezvous)
    if route and route.interface:
        # By itself gloo takes the address that the machine's name has, which is often that of nobody else's network.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", route.interface)
    # An address that does not answer is told in one line, and not by torch with its stack.
    os.environ[LOG_LEVEL], asked = "FATAL", os.environ.get(LOG_LEVEL, "ERROR")
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous.api import RendezvousError
    from torch.distributed.launcher import api

    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch.distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    os.environ[LOG_LEVEL] = asked
    # A machine that is gone is not waited for by those that are done: torch would for five minutes.
    api.LocalElasticAgent = functools.partial(api.LocalElasticAgent, exit_barrier_timeout=PARTING_SECONDS)  # type: ignore[attr-defined,assignment]
    sweep_unheld(Path(tempfile.gettempdir()), FOLDER)
    with tempfile.TemporaryDirectory(prefix=FOLDER) as folder, _held(Path(folder)):
        outcome = Path(folder) / "outcome"
        os.environ.update(
            {
                OUTCOME: str(outcome),
                LAUNCHER: str(os.getpid()),
                "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            }
        )
        config = api.LaunchConfig(
            min_nodes=options.nodes,
            max_nodes=options.nodes,
            nproc_per_node=options.processes,
            run_id=options.job or (f"pellucid-{uuid.uuid4().hex}" if is_here else "pellucid"),
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0" if is_here else options.rendezvous,
            rdzv_configs={
                "timeout": MEETING_SECONDS,
                "read_timeout": REACHING_SECONDS,
                "join_timeout": MEETING_SECONDS,
                # Torch goes by the machine's name; where it knows by itself, several on one machine can meet too.
                **({"is_host": "True"} if route and route.is_host and not route.is_loopback else {}),
            },
            local_addr=route.own_address if route else "localhost",
            max_restarts=RESTARTS,
            shutdown_timeout=SHUTDOWN_SECONDS,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            api.elastic_launch(config, sys.executable)("-m", "pellucid", *arguments)
        except SignalException as error:
            return _read_outcome(outcome, otherwise=128 + int(error.sigval))
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            how = (
                f"was killed by signal {-failure.exitcode}"
                if failure.exitcode < 0
                else f"ended with {failure.exitcode}"
            )
            raise _given_up(f"process {rank} {how}, after {RESTARTS} restarts") from error
        except (RendezvousError, TimeoutError) as error:
            raise PellucidError(
                f"the machines could not meet at {options.rendezvous}",
                fix=f"Look whether it can be reached, and start all {options.nodes} within {MEETING_SECONDS} s",
            ) from error
        return _read_outcome(outcome, otherwise=0)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    lock = hold_folder(folder)
    try:
        yield
    finally:
        os.close(lock)


class Route(NamedTuple):
    """How this machine comes to the one where all meet."""

    own_address: str  # under which the others reach this one
    interface: str  # that has it; "" where that is not known
    is_host: bool  # whether it is this machine itself

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.own_address).is_loopback


def route_to(rendezvous: str) -> Route:
    """Ask the kernel which way it would go; nothing is sent. A name that no machine has is refused.

    >>> found = route_to("127.0.0.1:29400")
    >>> found.own_address, found.is_host, found.is_loopback
    ('127.0.0.1', True, True)
    """
    host, _, port = rendezvous.rpartition(":")
    host = host.strip("[]")
    try:
        family, *_, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as door:
            door.connect(address)
            own = door.getsockname()[0]
    except (OSError, OverflowError) as error:
        raise PellucidError(
            f"there is no way to {host!r}: {getattr(error, 'strerror', '') or error}",
            fix="Look at {rendezvous}",
            options={"rendezvous": None},
        ) from error
    return Route(own, _interface_of(own), own == address[0])


def _interface_of(address: str) -> str:
    """The network device that has an IPv4 address, on Linux; else nothing."""
    if sys.platform != "linux" or ":" in address:
        return ""
    import fcntl
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                found = fcntl.ioctl(door, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return ""


def _read_outcome(place: Path, otherwise: int) -> int:
    """What rank 0 said of how it ended."""
    try:
        return int(place.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return otherwise


def _given_up(what: str) -> PellucidError:
    error = PellucidError(what, fix="Go on from the last checkpoint with pellucid train --resume and the run's name")
    error.exit_code = 3
    return error


def end_with_parent() -> None:
    """Let this process save and end when the one that started it is gone: torchrun alone would leave it behind.

    On Linux the kernel sends a SIGTERM at once; everywhere a thread looks who the parent is, and ends the process if
    it has not ended by itself a while after: it may wait for another that is gone.
    """
    if any(thread.name == WATCH for thread in threading.enumerate()):
        return
    parent = os.getppid()
    started_by = int(os.environ.get(LAUNCHER, parent))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != started_by:  # it was gone before anything could notice
        os._exit(143)
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True, name=WATCH).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(143)
