"""Run folders made up by somebody who knows the format: `python -m trust.crafted`.

One or two fields of a JSON file of a run, or of a line of a log, hold something else: another type, a list for a
number, half a character, markup, huge and negative numbers, names of other kinds. Every checksum, check and seal is
then made anew, so that only the fields can be refused. A command that reads the file must end with 2 and name the
field, or with 0 where what was put there could be true; never with 70. A field of another type that is taken is wrong.
"""

import argparse
import hashlib
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from trust.run_folders import Ended, ask_here, ask_in_process, commands_for, make_runs, require_answers

from pellucid.errors import LONGEST_LINE, PREFIX
from pellucid.runs import LOGS
from pellucid.runs.disk import checksummed_json, parse_checksummed
from pellucid.runs.logs import _check_of, _whole_line
from pellucid.runs.seal import seal_files

HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**30,
    -(10**18),
    2**63,
    1e308,
    -0.5,
    3.7,
    "",
    "x",
    "\ud800",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "os.system",
    "nan",
    "inf",
    "a" * 5000,
    "\x1b[2J\x00",
    [],
    [1],
    ["a", None],
    [[[]]],
    {},
    {"a": 1},
    {"__class__": "x"},
    "cnn",
    "transformer",
    "images",
    "regression",
)
SEALED_JSON = ("run.json", "finished.json", "model.json")
PLAIN_JSON = ("vocabulary.json", "preparation.json", "baselines.json")


def paths_in(plain: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a JSON document; of long lists the first places."""
    found = [at] if at else []
    if isinstance(plain, dict):
        for name, item in plain.items():
            found += paths_in(item, (*at, name))
    elif isinstance(plain, list):
        for number, item in enumerate(plain[:3]):
            found += paths_in(item, (*at, number))
    return found


def put(plain: Any, path: tuple[Any, ...], value: Any) -> Any:
    """What stood there before."""
    for step in path[:-1]:
        plain = plain[step]
    before, plain[path[-1]] = plain[path[-1]], value
    return before


def json_type(value: Any) -> str:
    if value in ("nan", "inf", "-inf"):
        return "word"  # a number or a text, as the field wants it
    return {bool: "bool", int: "number", float: "number", str: "text", list: "list", dict: "object"}.get(
        type(value), "null"
    )


def craft(run: Path, file: str, draw: random.Random) -> tuple[list[tuple[Any, ...]], bool]:
    """Put hostile values into a file and seal everything anew: which fields, and whether one is of another type."""
    content = (run / file).read_bytes()
    if file.endswith(".jsonl"):
        lines = [json.loads(line) for line in content.splitlines()]
        plain: Any = {"lines": lines}
    elif file in SEALED_JSON:
        plain = parse_checksummed(content, run / file)
        plain.pop("files", None) if file == "finished.json" else None
    else:
        plain = json.loads(content)
    paths = paths_in(plain)
    if file.endswith(".jsonl"):
        paths = [path for path in paths if len(path) > 2 and path[2] != "check"]
    chosen = draw.sample(paths, min(len(paths), draw.randint(1, 2)))
    chosen = [path for path in chosen if not any(path != other and path[: len(other)] == other for other in chosen)]
    is_other_type = False
    for path in chosen:
        value = draw.choice(HOSTILE)
        before = put(plain, path, value)
        kinds = {json_type(before), json_type(value)}
        is_sentence = path[:2] == ("data", "notes") and kinds == {"object", "text"}  # as in runs from before 2026-11
        is_other_type |= len(kinds) > 1 and not kinds & {"null", "word"} and not is_sentence
    if file.endswith(".jsonl"):
        text, check = b"", ""
        for line in plain["lines"]:
            line.pop("check", None)
            body = json.dumps(line).encode("ascii")[:-1]
            check = _check_of(body, check, file.removesuffix(".jsonl"))
            text += _whole_line(body, check)
        (run / file).write_bytes(text)
    elif file in SEALED_JSON:
        (run / file).write_bytes(checksummed_json(plain))
    else:
        (run / file).write_bytes(json.dumps(plain).encode("ascii"))
        record = parse_checksummed((run / "run.json").read_bytes(), run)
        record["files"][file] = hashlib.sha256((run / file).read_bytes()).hexdigest()
        (run / "run.json").write_bytes(checksummed_json(record))
    if (run / "finished.json").exists():
        ending = parse_checksummed((run / "finished.json").read_bytes(), run)
        (run / "finished.json").write_bytes(
            checksummed_json({"ending": ending.get("ending"), "files": seal_files(run)})
        )
    return chosen, is_other_type


def judge(ended: Ended, chosen: list[tuple[Any, ...]], *, is_read: bool, is_other_type: bool) -> str:
    """named, refused, taken, or what went wrong."""
    if ended.code in (0, 1):
        return "WRONG: another type was taken" if is_other_type and is_read else "taken"
    first = ended.err.strip().splitlines()[-1] if ended.err.strip() else ""
    if ended.code not in (2, 3) or not first.startswith(PREFIX) or len(first) > LONGEST_LINE:
        return f"WRONG: ended with {ended.code}: {first[:300]}"
    words = {str(step) for path in chosen for step in path if isinstance(step, str)}
    return "named" if any(word in first for word in words) else "refused"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=20, help="of them asked as processes of their own")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=Path, help="a folder in which the runs are made, or are already")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        folder = asked.runs or Path(own)
        folder.mkdir(exist_ok=True)
        tally, wrong = craft_many(make_runs(folder), asked.count, asked.processes, asked.seed, folder)
    n_refused = tally["named"] + tally["refused"]
    print(f"{asked.count:,} crafted folders (seed {asked.seed}): {n_refused:,} refused with exit 2, of them")
    print(f"{tally['named']:,} with the field's name; {tally['taken']:,} could be true or were not read")
    print(f"{tally['70']} ended with 70")
    print(f"{tally['processes']} were asked as processes of their own; {len(wrong)} wrong")
    return 1 if wrong else 0


def craft_many(
    runs: dict[str, Path], count: int, n_processes: int, seed: int, folder: Path
) -> tuple[Counter[str], list[str]]:
    """Craft so many folders one at a time, undo each, and count how commands met them."""
    require_answers(runs, folder)
    draw = random.Random(seed)
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(count):
        name = draw.choice([*runs, *[name for name in ("list", "table") if name in runs]])
        run = runs[name]
        logs = [f"{log}.jsonl" for log in LOGS if (run / f"{log}.jsonl").exists()]
        others = [file for file in (*SEALED_JSON, *PLAIN_JSON) if (run / file).exists()]
        file = draw.choice([*["run.json"] * 4, *others, *logs])
        before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
        try:
            chosen, is_other_type = craft(run, file, draw)
            words, is_read = command_that_reads(name, file, draw)
            is_alone = number * n_processes // count > tally["processes"]
            ended = (ask_in_process if is_alone else ask_here)(words, folder)
            tally["processes"] += is_alone
        finally:
            for path in set(run.iterdir()) - set(before):
                if path.is_file():
                    path.unlink()
            for path, content in before.items():
                path.write_bytes(content)
        # What was asked and how data were read is looked at where a run is gone on with; facts are of no type.
        is_read &= not any(path[0] in ("asked", "reading") or "facts" in path for path in chosen)
        met = judge(ended, chosen, is_read=is_read, is_other_type=is_other_type)
        if met.startswith("WRONG"):
            fields = ", ".join(".".join(map(str, path)) for path in chosen)
            wrong.append(f"case {number}: {name}/{file} {fields}: {' '.join(words)}: {met}")
            print(wrong[-1], flush=True)
        tally[met.split(":")[0]] += 1
        tally["70"] += ended.code == 70
    return tally, wrong


def command_that_reads(name: str, file: str, draw: random.Random) -> tuple[list[str], bool]:
    """A command for the run, and whether it surely reads the file."""
    commands = commands_for(name)
    report, others = commands[0], commands[1:]
    if name == "stopped":  # to go on with it trains for a while
        return (report, False) if draw.random() < 0.05 else (others[0], file == "run.json")
    if file in ("vocabulary.json", "preparation.json", "model.json"):
        return draw.choice(others), False
    if file == "baselines.json":
        return report, False
    return (
        (report, True) if draw.random() < 0.7 or file.endswith(".jsonl") else (draw.choice(others), file == "run.json")
    )


if __name__ == "__main__":
    sys.exit(main())
