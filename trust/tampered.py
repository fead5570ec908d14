"""Damage to every file of run folders, and whether any of it is believed: `python -m trust.tampered`.

A bit, a cut, a swap, a lost or doubled block, white space, a file of another run, a file that is gone: one at a time,
in a finished run of each kind and in one that was stopped. Whoever reads that file must refuse it in one line that
names it, or say that a checkpoint was passed over. What cannot be seen, because it leaves just what a kill a moment
earlier would have left (lines after the last checkpoint of a stopped run), is counted apart: `--resume` cuts them off.
Most damages are read in this process; for some a command is asked, and some of these as a process of its own.
"""

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from trust.run_folders import ask_here, ask_in_process, commands_for, make_runs

from pellucid.errors import LONGEST_LINE, PREFIX, PellucidError
from pellucid.runs import LOGS, open_run, read_log
from pellucid.runs.logs import checkpointed_places

Damage = Callable[[bytes, random.Random], bytes | None]


def _place(content: bytes, draw: random.Random) -> tuple[int, int]:
    at = draw.randrange(len(content) or 1)
    return at, min(len(content), at + draw.randint(1, 64))


def flip_bit(content: bytes, draw: random.Random) -> bytes:
    at, _ = _place(content, draw)
    return content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :]


def cut_end(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def lose_block(content: bytes, draw: random.Random) -> bytes:
    at, end = _place(content, draw)
    return content[:at] + content[end:]


def double_block(content: bytes, draw: random.Random) -> bytes:
    at, end = _place(content, draw)
    return content[:end] + content[at:]


def zero_block(content: bytes, draw: random.Random) -> bytes:
    at, end = _place(content, draw)
    return content[:at] + bytes(end - at) + content[end:]


def swap_blocks(content: bytes, draw: random.Random) -> bytes:
    a, b = sorted((draw.randrange(len(content)), draw.randrange(len(content))))
    size = max(1, min(b - a, len(content) - b, 64))
    return content[:a] + content[b : b + size] + content[a + size : b] + content[a : a + size] + content[b + size :]


def swap_lines(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    if len(lines) > 1:
        a, b = draw.sample(range(len(lines)), 2)
        lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


def lose_line(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[draw.randrange(len(lines))]
    return b"".join(lines)


def add_space(content: bytes, draw: random.Random) -> bytes:
    at, _ = _place(content, draw)
    return content[:at] + draw.choice([b" ", b"\n", b"\t", b"\r\n"]) + content[at:]


def change_digit(content: bytes, draw: random.Random) -> bytes:
    places = [at for at, byte in enumerate(content[:100_000]) if 48 <= byte <= 57]
    if not places:
        return flip_bit(content, draw)
    at = draw.choice(places)
    return content[:at] + bytes([48 + (content[at] - 47) % 10]) + content[at + 1 :]


def lose_file(content: bytes, draw: random.Random) -> None:
    return None


DAMAGES: tuple[Damage, ...] = (
    flip_bit,
    cut_end,
    lose_block,
    double_block,
    zero_block,
    swap_blocks,
    swap_lines,
    lose_line,
    add_space,
    change_digit,
    lose_file,
)


def files_of(run: Path) -> list[str]:
    """Every file of a run but the lock, which only informs people."""
    return sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file() and path.name != "lock")


def read_damaged(run: Path, name: str) -> str:
    """Read a file as pellucid does wherever it needs it; what it says of a checkpoint that it passes over, or ""."""
    from pellucid.training.checkpoints import _read_checkpoint, load_best, newest_checkpoint

    if name.startswith("checkpoints/"):
        found = newest_checkpoint(run)
        told = "" if found is None else "; ".join(found.unused.values())
        if not told:
            # Nobody needs an older one while the newest is whole, nor any of a finished run: it is read by itself.
            place = (run / name).parent
            try:
                _read_checkpoint(place, int(place.name[5:]))
            except OSError as error:  # as where all are read in turn: it is passed over
                return str(error)
            _require_sealed(run, name)
        return told
    opened = open_run(run)
    log = name.removesuffix(".jsonl")
    if log in LOGS:
        read_log(run, log)
    elif name == "finished.json":
        _ = opened.result
    elif name in ("model.safetensors", "model.json"):
        load_best(run)
        _require_sealed(run, name)
    elif name != "run.json":
        opened.read_file(name)
    elif (run / "checkpoints").exists() and any((run / "checkpoints").iterdir()):
        newest_checkpoint(run)
    return ""


def _require_sealed(run: Path, name: str) -> None:
    from pellucid.runs import read_seal

    seal, path = read_seal(run), run / name
    if seal is not None:
        seal.require(name, path.read_bytes() if path.is_file() else None)


def is_earlier_kill(run: Path, name: str, before: bytes, after: bytes | None) -> bool:
    """Whether a stopped run looks as a kill a moment earlier would have left it."""
    if name == "finished.json" and after is None:
        return True
    if (run / "finished.json").exists():
        return False
    if name in ("report.html", "finished.json") or (name == "model.json" and after is None):
        return True
    if not name.endswith(".jsonl"):
        return False
    steps = sorted(int(path.name[5:]) for path in (run / "checkpoints").iterdir() if path.name.startswith("step-"))
    place = checkpointed_places(run, steps[-1]).get(name.removesuffix(".jsonl"))
    kept = place.n_bytes if place else 0
    return before[:kept] == (after or b"")[:kept] and len(after or b"") >= kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument(
        "--commands", type=int, default=200, help="of them for which a command is asked in this process"
    )
    parser.add_argument("--processes", type=int, default=20, help="of them for which it is a process of its own")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=Path, help="a folder in which the runs are made, or are already")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        folder = asked.runs or Path(own)
        folder.mkdir(exist_ok=True)
        tally, wrong = tamper(make_runs(folder), asked.count, asked.commands, asked.processes, asked.seed, folder)
    n_files = len({what for what in tally if what.startswith("file ")})
    print(
        f"{asked.count:,} damages (seed {asked.seed}) to {n_files} files of 5 runs, {len(DAMAGES) + 1} kinds of damage"
    )
    print(f"refused with the file's name: {tally['refused']:,}; a checkpoint passed over, and said: {tally['told']:,}")
    print(f"as a kill a moment earlier leaves a stopped run: {tally['killed']:,}; no change at all: {tally['same']:,}")
    print(f"asked by a command: {tally['commands']:,}, as a process of its own: {tally['processes']:,}")
    for line in wrong[:20]:
        print(line)
    print(f"{tally['believed']} believed, {len(wrong) - tally['believed']} refused badly")
    return 1 if wrong else 0


def tamper(
    runs: dict[str, Path], count: int, n_commands: int, n_processes: int, seed: int, folder: Path
) -> tuple[Counter[str], list[str]]:
    """Make so many damages one at a time, undo each, and count how they were met."""
    draw = random.Random(seed)
    files = [(name, run, file) for name, run in runs.items() for file in files_of(run)]
    whole = {(name, file): (run / file).read_bytes() for name, run, file in files}
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(count):
        name, run, file = draw.choice(files)
        before = whole[name, file]
        kind = draw.randrange(len(DAMAGES) + 1)
        if not before:
            continue
        if kind < len(DAMAGES):
            how, after = DAMAGES[kind].__name__, DAMAGES[kind](before, draw)
        else:
            how, after = "take_other", draw.choice([content for at, content in whole.items() if at != (name, file)])
        if after == before:
            tally["same"] += 1
            continue
        tally[f"file {file}"] += 1
        (run / file).write_bytes(after) if after is not None else (run / file).unlink()
        try:
            met = _meet(run, file, before, after)
            if met == "refused" and n_commands and number % max(1, count // n_commands) == 0:
                words = commands_for(name)[name == "stopped"]  # to go on with that would change it
                is_alone = tally["processes"] < n_processes and draw.random() < n_processes / n_commands
                ended = (ask_in_process if is_alone else ask_here)(words, folder)
                tally["commands"] += 1
                tally["processes"] += is_alone
                if ended.code not in (0, 2, 3) or (ended.code == 2 and not ended.err.startswith(PREFIX)):
                    met = f"WRONG: {' '.join(words)} ended with {ended.code}: {ended.err[-200:]}"
        finally:
            (run / file).write_bytes(before)
        if met.startswith(("WRONG", "believed")):
            wrong.append(f"{name}/{file}, {how}: {met}")
            tally["believed"] += met == "believed"
        else:
            tally[met] += 1
    return tally, wrong


def _meet(run: Path, file: str, before: bytes, after: bytes | None) -> str:
    if file == "finished.json" and after is None:
        return "killed"
    try:
        told = read_damaged(run, file)
    except PellucidError as error:
        line = PREFIX + str(error)
        base = os.path.basename(file)
        is_well = len(line) <= LONGEST_LINE and line.isprintable() and error.exit_code == 2
        # Where what vouches is another run's, the file that it does not fit is named.
        is_named = base in line or file.startswith("checkpoints/") or "format" in line
        is_named |= file == "finished.json" or (file == "model.json" and "model.safetensors" in line)
        return "refused" if is_well and is_named else f"WRONG: {line}"
    except Exception as error:
        return f"WRONG: {type(error).__name__}: {error}"
    if told:
        return "told"
    return "killed" if is_earlier_kill(run, file, before, after) else "believed"


if __name__ == "__main__":
    sys.exit(main())
