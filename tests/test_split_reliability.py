"""Splits, by the real command in a real process."""

import fcntl
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

ROWS = 3000


def table(rows: int = ROWS, start: int = 0) -> pl.DataFrame:
    """Baskets with a heavy tail, a customer and a tier; every row different by its number."""
    draw = random.Random(7)
    cells = [(int(draw.paretovariate(1.3) * 5), draw.randrange(200), draw.choice("abc")) for _ in range(start + rows)]
    columns = dict(zip(("items", "customer", "tier"), zip(*cells, strict=True), strict=True))
    return pl.DataFrame({"number": range(start + rows), **columns}).slice(start)


def refused(run, folder: Path, *, said: str) -> None:
    assert run.returncode == 2, run.stdout + run.stderr
    assert run.stdout == ""
    assert said in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert len(run.stderr.rstrip("\n")) <= 240
    assert "Traceback" not in run.stderr


def sides_by_row(folder: Path, suffix: str = ".parquet") -> dict[tuple[object, ...], str]:
    """Each row and the side it stands on, read back from what was written."""
    read = pl.read_parquet if suffix == ".parquet" else pl.read_csv
    return {row: side for side in ("train", "dev", "test") for row in read(folder / f"{side}{suffix}").rows()}


@pytest.mark.parametrize(
    ("fractions", "said"),
    [
        ("0.8,0.1,0.2", "add up to 1.1"),
        ("0.8,0.1,0.05", "add up to 0.95"),
        ("0.9,0.1,0", "the fraction of test is 0"),
        ("1.0,0,0", "the fraction of dev is 0"),
        ("1.2,-0.1,-0.1", "the fraction of dev is -0.1"),
        ("nan,0.5,0.5", "the fraction of train is nan"),
        ("inf,0.1,0.1", "the fraction of train is inf"),
        ("0.8,0.3", "add up to 1.1"),
        ("0.8", "1 fractions came"),
        ("1,0", "the fraction of test is 0"),
        ("0.7,0.1,0.1,0.1", "4 fractions came"),
        ("a,b,c", "'a,b,c' is not three fractions"),
        ("", "--fractions is empty"),
    ],
)
def test_fractions_that_are_none(pellucid, tmp_path, fractions, said):
    (tmp_path / "names.txt").write_text("anna\nbert\ncarla\n")
    refused(pellucid("split", "names.txt", "--fractions", fractions), tmp_path, said=said)
    assert os.listdir(tmp_path) == ["names.txt"]


@pytest.mark.parametrize("words", [("--strategy", "hash"), ("--key", "number"), ("--group", "customer")])
def test_appended_rows_move_no_other(pellucid, tmp_path, words):
    whole = table()
    number = pl.col("number")
    whole.head(2000).write_csv(tmp_path / "before.csv")
    # The first fraction and the first missing cell of a column arrive with the new rows.
    items = pl.when(number == 2500).then(0.5).when(number != 2600).then(pl.col("items"))
    whole.with_columns(items.alias("items")).write_csv(tmp_path / "after.csv")
    for name in ("before", "after"):
        assert pellucid("split", f"{name}.csv", *words).returncode == 0
    before, after = (sides_by_row(tmp_path / f"{name}-split") for name in ("before", "after"))
    assert len(before) == 2000
    assert {row: after[row] for row in before} == before


def test_appended_lines_move_no_other(pellucid, tmp_path):
    names = [f"name {number}" for number in range(500)]
    sides = []
    for n in (300, 500):
        (tmp_path / f"{n}.txt").write_text("\n".join(names[:n]) + "\n")
        assert pellucid("split", f"{n}.txt").returncode == 0
        parts = {side: (tmp_path / f"{n}-split" / f"{side}.txt").read_text().split("\n") for side in ("train", "dev")}
        sides.append({name: side for side, part in parts.items() for name in part if name in names[:300]})
    assert sides[0] == sides[1]


def test_the_report_says_which_strategies_move_rows(pellucid, tmp_path):
    table().write_csv(tmp_path / "t.csv")
    for strategy, is_stable in {"hash": True, "stratified": False, "time": False, "random": False}.items():
        run = pellucid("split", "t.csv", "--strategy", strategy, "--dry-run", "--json")
        assert json.loads(run.stdout)["is_stable"] is is_stable


def test_duplicates_across_sides_are_counted_and_end_with_1(pellucid, tmp_path):
    names = [f"name {number}" for number in range(400)]
    (tmp_path / "names.txt").write_text("\n".join(names * 3) + "\n")
    run = pellucid("split", "names.txt", "--strategy", "random", "--json")
    assert run.returncode == 1
    parts = {side: (tmp_path / "names-split" / f"{side}.txt").read_text().splitlines() for side in ("train", "dev")}
    wanted = sum(name in set(parts["train"]) for name in parts["dev"])
    report = json.loads(run.stdout)
    found = [one for one in report["straddles"] if one["what"] == "equal items" and one["side"] == "dev"]
    assert found[0]["n_shared"] == wanted > 0
    assert report["verdict"][0].startswith(f"Leak: {wanted} of {len(parts['dev'])} dev items")
    assert pellucid("split", "names.txt", "--dry-run").returncode == 0


def test_equal_rows_and_groups(pellucid, tmp_path):
    doubled = pl.concat([table(500), table(500)])
    doubled.write_csv(tmp_path / "t.csv")
    for strategy, code in {"hash": 0, "stratified": 0, "random": 1}.items():
        run = pellucid("split", "t.csv", "--strategy", strategy)
        shutil.rmtree(tmp_path / "t-split")
        assert run.returncode == code, run.stdout
    for words, code in {("--group", "customer"): 0, ("--strategy", "hash", "--group", "customer"): 1}.items():
        run = pellucid("split", "t.csv", *words, "--dry-run", "--json")
        shared = [one for one in json.loads(run.stdout)["straddles"] if one["what"] == "rows with the same customer"]
        assert run.returncode == code
        assert all(bool(one["n_shared"]) == bool(code) for one in shared)
        assert len(shared) == 2


def test_nothing_is_overwritten(pellucid, tmp_path):
    table().write_csv(tmp_path / "t.csv")
    before = hashlib.sha256((tmp_path / "t.csv").read_bytes()).hexdigest()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("kept")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for out in ("full", "empty", "link", "t.csv", "."):
        refused(pellucid("split", "t.csv", "--out", out), tmp_path, said="exists already")
    refused(pellucid("split", "t.csv", "--out", "no/where"), tmp_path, said="there is no folder 'no'")
    assert pellucid("split", "t.csv").returncode == 0
    refused(pellucid("split", "t.csv"), tmp_path, said="'t-split' exists already")
    assert (tmp_path / "full" / "mine").read_text() == "kept"
    assert hashlib.sha256((tmp_path / "t.csv").read_bytes()).hexdigest() == before
    assert sorted(os.listdir(tmp_path)) == ["empty", "full", "link", "t-split", "t.csv"]


def test_an_input_that_cannot_be_written_is_read(pellucid, tmp_path):
    table().write_csv(tmp_path / "t.csv")
    (tmp_path / "t.csv").chmod(0o444)
    assert pellucid("split", "t.csv").returncode == 0


@pytest.mark.parametrize("words", [("--format", "csv"), ("--format", "parquet")])
@pytest.mark.parametrize("limit", [1, 1000, 20_000])
def test_a_write_that_fails_half_way_leaves_nothing(pellucid, tmp_path, words, limit):
    """No file may grow past the limit, so that writing fails as on a full disk, at several points."""
    table(20_000).write_csv(tmp_path / "t.csv")

    def allow_little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    run = pellucid("split", "t.csv", "--strategy", "hash", *words, preexec_fn=allow_little)
    refused(run, tmp_path, said="could not be written")
    assert os.listdir(tmp_path) == ["t.csv"]


def test_a_full_disk_leaves_nothing(pellucid, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        table(50_000).write_csv(tmp_path / "t.csv")
        for words in (("--format", "csv"), ("--format", "parquet")):
            run = pellucid("split", "t.csv", "--strategy", "hash", "--out", "disk/parts", *words)
            refused(run, tmp_path, said="could not be written")
            assert os.listdir(disk) == []
    finally:
        subprocess.run(["umount", disk], check=True)


SIDES_OF_A_FILE = """
import locale, sys
from pellucid.data import open_data
from pellucid.data.splits import SplitRequest
from pellucid.data.splits.split import split_data
locale.setlocale(locale.LC_ALL, "")
data = open_data(sys.argv[1])
request = SplitRequest(*sys.argv[2:3], repeats=0)
sides = split_data(data, request).sides.tolist()
rows = data.frame.rows() if data.kind == "table" else data.items
for row in sorted(zip(map(ascii, rows), sides)):
    print(*row)
"""


def sides_of_file(path: Path, strategy: str, environment: dict[str, str]) -> str:
    """Every row of a file and its side, sorted, as another process with another environment sees them."""
    run = subprocess.run(
        [sys.executable, "-c", SIDES_OF_A_FILE, path, strategy],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        check=True,
    )
    return run.stdout


@pytest.mark.parametrize("strategy", ["hash", "stratified", "time", ""])
def test_locale_threads_and_row_order_change_nothing(tmp_path, strategy):
    whole = table().with_columns(word=pl.col("tier") + "ß İı" + (pl.col("number") % 700).cast(pl.String))
    whole.write_csv(tmp_path / "t.csv")
    whole.sample(fraction=1, shuffle=True, seed=3).write_csv(tmp_path / "shuffled.csv")
    settings = [
        ("t.csv", {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "POLARS_MAX_THREADS": "1"}),
        ("t.csv", {"LC_ALL": "C.UTF-8", "POLARS_MAX_THREADS": "4", "PYTHONHASHSEED": "2"}),
        ("shuffled.csv", {"LC_ALL": "C.UTF-8", "POLARS_MAX_THREADS": "2", "TZ": "Asia/Tokyo"}),
    ]
    said = {sides_of_file(tmp_path / name, strategy, environment) for name, environment in settings}
    assert len(said) == 1
    assert len(next(iter(said)).splitlines()) == ROWS


def test_lists_too(tmp_path):
    names = [f"Name{number}ß İı" for number in range(500)]
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    (tmp_path / "shuffled.txt").write_text("\n".join(random.Random(1).sample(names, 500)) + "\n", encoding="utf-8")
    settings = [
        ("names.txt", {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONHASHSEED": "1"}),
        ("shuffled.txt", {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"}),
    ]
    said = {sides_of_file(tmp_path / name, "hash", environment) for name, environment in settings}
    assert len(said) == 1


def test_what_is_written_is_known(pellucid, tmp_path):
    """These hashes were computed once and hold on every machine: whoever changes the hash breaks old splits."""
    (tmp_path / "names.txt").write_text("\n".join(f"name {number}" for number in range(200)) + "\n")
    assert pellucid("split", "names.txt").returncode == 0
    assert pellucid("split", "names.txt", "--seed", "another", "--out", "other").returncode == 0
    digests = [
        hashlib.sha256((tmp_path / folder / "test.txt").read_bytes()).hexdigest()[:16]
        for folder in ("names-split", "other")
    ]
    assert digests == ["64f0b2c919059792", "d7f4101eafe1122d"]


def test_what_a_killed_split_left_is_swept_and_said(tmp_path, pellucid):
    """One folder whose writer is gone, and one whose writer lives."""
    (tmp_path / "list.txt").write_text("".join(f"item {n}\n" for n in range(50)))
    dead, living = tmp_path / ".tmp-split-a-1", tmp_path / ".tmp-split-b-2"
    for folder in (dead, living):
        folder.mkdir()
        (folder / "train.txt").write_text("half")
    lock = os.open(living, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        said = pellucid("split", "list.txt", "--out", "parts")
    finally:
        os.close(lock)
    assert said.returncode in (0, 1)
    assert "Removed '.tmp-split-a-1', which a split that was killed had left half made" in said.stderr
    assert (dead.exists(), living.exists(), (tmp_path / "parts").is_dir()) == (False, True, True)
