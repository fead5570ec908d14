"""Data as large as people have: `python -m trust.loads`, or some of them by name.

A gigabyte of text, ten million lines, 1.7 million rows and 100,000 images go through `train` from reading to the last
evaluation; of a thousand runs in a folder one is asked for, all are listed, and one more is made. Every command is a
process of its own, whose time and peak memory are printed. Memory may be twice the data and a gigabyte.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy

SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sta", "tre", "vi", "wo", "zu", "sh", "en")
GIGABYTE = 1_000_000_000
SIMPLE = ["--steps", "30", "--size", "tiny", "--threads", "1", "--seed", "1"]
LISTING = "from pellucid.api.runs import list_runs; print(len(list_runs()), 'runs')"


class Load(NamedTuple):
    """What is made in a folder, and what is asked of it there."""

    make: Callable[[Path, float], None]  # in a folder, so large a share of it
    commands: tuple[tuple[str, ...], ...]


def made_words(draw: random.Random, count: int) -> list[str]:
    return ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(count)]


def make_text(folder: Path, share: float) -> None:
    """A gigabyte: a thousand pages, which are 64 different ones in any order."""
    draw = random.Random(1)
    words = made_words(draw, 8_000)
    pages = [(" ".join(draw.choices(words, k=190_000)) + ".\n")[:1_000_000].encode() for _ in range(64)]
    with (folder / "text.txt").open("wb") as file:
        for _ in range(round(1_000 * share)):
            file.write(draw.choice(pages))


def make_lines(folder: Path, share: float) -> None:
    """Ten million items, nearly all of them different."""
    draw = random.Random(2)
    words = made_words(draw, 5_000)
    with (folder / "lines.txt").open("w") as file:
        for _ in range(round(100 * share)):
            pairs = zip(draw.choices(words, k=100_000), draw.choices(words, k=100_000), strict=True)
            file.write("".join(f"{a}{b}\n" for a, b in pairs))


def make_rows(folder: Path, share: float) -> None:
    """1.7 million rows: eight numbers, two categories, and a class that depends on three of them."""
    generator = numpy.random.default_rng(3)
    with (folder / "rows.csv").open("w") as file:
        file.write(",".join([*[f"x{i}" for i in range(8)], "colour", "size", "class"]) + "\n")
        for _ in range(max(1, round(17 * share))):
            numbers = generator.normal(size=(100_000, 8))
            colours = generator.choice(["red", "green", "blue"], size=100_000)
            sizes = generator.choice(["S", "M", "L", "XL"], size=100_000)
            noisy = numbers[:, 0] * numbers[:, 1] + (colours == "red") + generator.normal(scale=0.5, size=100_000)
            names = numpy.where(noisy > 1, "high", numpy.where(noisy < -1, "low", "middle"))
            for row, colour, size, name in zip(numbers.tolist(), colours, sizes, names, strict=True):
                file.write(",".join([*[f"{number:.4f}" for number in row], colour, size, name]) + "\n")


def make_images(folder: Path, share: float) -> None:
    """100,000 images of 20 x 20 in ten folders: a stroke that leans more from class to class, in noise."""
    from PIL import Image

    generator = numpy.random.default_rng(4)
    across = numpy.arange(20) - 9.5
    for number in range(10):
        place = folder / "images" / f"class-{number}"
        place.mkdir(parents=True)
        angle = numpy.pi * number / 10
        distance = numpy.abs(across[:, None] * numpy.cos(angle) + across[None, :] * numpy.sin(angle))
        for i in range(round(10_000 * share)):
            pixels = 200 * (distance < 2) + generator.integers(0, 55, size=(20, 20))
            Image.fromarray(pixels.astype(numpy.uint8)).save(place / f"{i}.png", compress_level=1)


def make_runs(folder: Path, share: float) -> None:
    """A thousand runs: one, copied."""
    items = [f"{a}{b}{c}" for a in ("ba", "ke", "lo", "mi") for b in "dnrst" for c in ("a", "en", "o", "i")]
    (folder / "names.txt").write_text("\n".join(items) + "\n")
    words = ("train", "names.txt", "--kind", "list", *SIMPLE, "--name", "run-0")
    subprocess.run(pellucid(*words), cwd=folder, capture_output=True, check=True)
    for number in range(1, round(1_000 * share)):
        shutil.copytree(folder / "runs" / "run-0", folder / "runs" / f"run-{number}")


def pellucid(*words: str) -> list[str]:
    return [sys.executable, "-m", "pellucid", *words]


LOADS = {
    "text": Load(make_text, (("train", "text.txt", "--kind", "text", *SIMPLE),)),
    "lines": Load(make_lines, (("train", "lines.txt", "--kind", "list", *SIMPLE),)),
    "rows": Load(make_rows, (("train", "rows.csv", "--target", "class", *SIMPLE),)),
    "images": Load(make_images, (("train", "images", *SIMPLE),)),
    "runs": Load(make_runs, (("sample", "run-7"), ("-c", LISTING), ("train", "names.txt", "--kind", "list", *SIMPLE))),
}


class Spent(NamedTuple):
    """How a process ended, and what it needed."""

    code: int
    seconds: float
    peak_bytes: int
    said: str


def run_measured(words: tuple[str, ...], folder: Path) -> Spent:
    command = [sys.executable, *words] if words[0] == "-c" else pellucid(*words)
    started = time.monotonic()
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Spent(
        process.returncode,
        time.monotonic() - started,
        usage.ru_maxrss * 1024,
        (folder / "said").read_text(errors="replace"),
    )


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def load_folder(base: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=base) as folder:
        yield Path(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="LOAD", help=", ".join(LOADS))
    parser.add_argument("--share", type=float, default=1.0, help="so much of each load")
    parser.add_argument("--folder", type=Path, help="where there is room for 5 GB")
    asked = parser.parse_args()
    n_wrong = 0
    print(f"{'load':<8} {'data':>9} {'seconds':>8} {'peak':>9} {'allowed':>9}  command")
    for name in asked.names or LOADS:
        with load_folder(asked.folder) as folder:
            LOADS[name].make(folder, asked.share)
            size = size_of(folder)
            allowed = 2 * size + GIGABYTE
            for words in LOADS[name].commands:
                spent = run_measured(words, folder)
                is_wrong = spent.code != 0 or spent.peak_bytes > allowed
                n_wrong += is_wrong
                shown = "list_runs()" if words[0] == "-c" else " ".join(words)
                megabytes = [f"{n / 1e6:,.0f} MB" for n in (size, spent.peak_bytes, allowed)]
                print(
                    f"{name:<8} {megabytes[0]:>9} {spent.seconds:>8.1f} {megabytes[1]:>9} {megabytes[2]:>9}  {shown}"
                    + ("  WRONG" if is_wrong else ""),
                    flush=True,
                )
                if spent.code:
                    print("\n".join(spent.said.splitlines()[-8:]), flush=True)
    print(f"{n_wrong} wrong")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
