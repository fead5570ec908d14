"""An item: data that somebody else made, how they are got out of an unpacked package, and how they are written."""

import gzip
import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from PIL.Image import Image

KINDS = ("list", "text", "table", "images", "pairs")
SUFFIXES = {"list": ".txt", "text": ".txt", "table": ".csv", "images": "", "pairs": ".tsv"}

Frame = Any  # of pandas, which has no types of its own
Pictures = Iterator[tuple[str, "Image"]]  # each with its class
Pair = tuple[str, str]
Thing = TypeVar("Thing")


class Packages:
    """Packages that were unpacked into `pypi/NAME`, `debian/NAME` and `npm/NAME` of one folder, as fetch.sh does it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, package: str) -> Path:
        """
        >>> Packages(Path("there")).folder("npm:@material-design-icons/svg").as_posix()
        'there/npm/material-design-icons-svg'
        """
        registry, name = package.split(":")
        return self.root / registry / name.replace("@", "").replace("/", "-")

    def find(self, package: str, pattern: str) -> Path:
        """The first file of a package that matches."""
        found = next(iter(sorted(self.folder(package).glob(pattern))), None)
        if found is None:
            raise FileNotFoundError(f"{package} holds no {pattern}")
        return found

    def read(self, package: str, member: str | Path, encoding: str = "utf-8") -> str:
        """A file of a package as text, unpacked where it is packed."""
        path = self.folder(package) / member
        raw = gzip.decompress(path.read_bytes()) if path.suffix in (".gz", ".dz") else path.read_bytes()
        return raw.decode(encoding, errors="replace").replace("\r\n", "\n")

    def read_json(self, package: str, member: str) -> Any:
        return json.loads(self.read(package, member))

    def read_all(self, package: str, pattern: str, limit: int = 10**7, encoding: str = "utf-8") -> str:
        """All files that match, one after the other, cut at a limit of characters."""
        base, texts, length = self.folder(package), [], 0
        for path in sorted(base.glob(pattern)):
            if path.is_file() and length < limit:
                texts.append(self.read(package, path.relative_to(base), encoding))
                length += len(texts[-1])
        return "".join(texts)[:limit]

    def version(self, package: str) -> str:
        """Of npm by its own word, of the others as fetch.sh wrote it down; "" where nobody did."""
        if package.startswith("npm:"):
            return str(self.read_json(package, "package/package.json")["version"])
        versions = self.root / "versions.txt"
        lines = [line.split() for line in versions.read_text().splitlines()] if versions.exists() else []
        return next((line[1] for line in lines if line[0] == package), "")


@dataclass(frozen=True)
class Item:
    """Data to train on, and where they come from.

    What `make` gives is written by its kind: lines, a text, a frame of pandas, pictures with their classes, or pairs.
    """

    name: str
    kind: str  # one of KINDS
    packages: tuple[str, ...]  # as "debian:wamerican"
    member: str  # the file of the package, and what was done with it
    licence: str
    make: Callable[[Packages], Any]
    target: str = ""  # the column of a table that is predicted
    task: str = ""  # of a table, as it is meant: classification or regression
    group: str = ""  # the column whose rows belong together, where there is one
    time: str = ""  # the column by which rows have an order

    def path(self, root: Path) -> Path:
        return root / "data" / self.kind / (self.name + SUFFIXES[self.kind])

    def missing(self, packages: Packages) -> list[str]:
        """The packages that are not there."""
        return [package for package in self.packages if not packages.folder(package).is_dir()]

    def write(self, packages: Packages) -> dict[str, int]:
        """Make the file; how much is in it."""
        path = self.path(packages.root)
        path.parent.mkdir(parents=True, exist_ok=True)
        made = self.make(packages)
        if self.kind == "list":
            path.write_text("".join([line + "\n" for line in made]), encoding="utf-8")
            return {"rows": len(made), "tokens": sum([len(line) + 1 for line in made])}
        if self.kind == "text":
            path.write_text(made, encoding="utf-8")
            return {"tokens": len(made)}
        if self.kind == "table":
            made.to_csv(path, index=False)
            return {"rows": len(made), "columns": len(made.columns), "missing": int(made.isna().sum().sum())}
        if self.kind == "pairs":
            path.write_text("".join([f"{source}\t{target}\n" for source, target in made]), encoding="utf-8")
            return {"rows": len(made), "tokens": sum([len(source) + len(target) + 2 for source, target in made])}
        return write_pictures(path, made)


def write_pictures(path: Path, pictures: Pictures) -> dict[str, int]:
    """A folder for each class."""
    shutil.rmtree(path, ignore_errors=True)
    counts: dict[str, int] = {}
    for label, picture in pictures:
        (path / label).mkdir(parents=True, exist_ok=True)
        counts[label] = counts.get(label, 0) + 1
        picture.save(path / label / f"{counts[label]:05}.png")
    return {"rows": sum(counts.values()), "classes": len(counts)}


def item(
    kind: str,
    packages: str,
    member: str,
    licence: str,
    *,
    target: str = "",
    task: str = "",
    group: str = "",
    time: str = "",
) -> Callable[[Callable[[Packages], Any]], Item]:
    """Make an item of the function below, under that function's name; several packages have " + " between them."""

    def made(make: Callable[[Packages], Any]) -> Item:
        names = tuple(packages.split(" + "))
        return Item(make.__name__, kind, names, member, licence, make, target, task, group, time)

    return made


def items_of(module: ModuleType) -> list[Item]:
    """Those that a module defines, in its order."""
    return [value for value in vars(module).values() if isinstance(value, Item)]


def part_of(items: Iterable[Item]) -> dict[str, str]:
    """For each name "choose" or "unseen": of each kind, the third of the names whose hashes are lowest is unseen.

    Recipes are chosen and mended on the first alone. Which are which follows from the names and nothing else.
    """
    parts: dict[str, str] = {}
    names: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for one in items:
        names[one.kind].append(one.name)
    for of_kind in names.values():
        ranked = sorted(of_kind, key=lambda name: hashlib.sha256(f"0:{name}".encode()).hexdigest())
        n_unseen = (len(ranked) + 1) // 3
        parts |= {name: "unseen" if rank < n_unseen else "choose" for rank, name in enumerate(ranked)}
    return parts


def unique(lines: Iterable[str]) -> list[str]:
    """Stripped, without empties and repetitions, in order.

    >>> unique(["b ", "", "a", "b"])
    ['b', 'a']
    """
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


def some(things: Sequence[Thing], count: int) -> list[Thing]:
    """A sample with a fixed seed, in the order of the source."""
    chosen = sorted(random.Random(0).sample(range(len(things)), min(count, len(things))))
    return [things[index] for index in chosen]
