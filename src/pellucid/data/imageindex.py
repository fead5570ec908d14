"""What is known of each image, remembered between runs by its name, size and time of change.

The memory is one file in the user's cache folder ($XDG_CACHE_HOME or ~/.cache, under pellucid), never among the images.
It is written only for folders of 200 images or more, and PELLUCID_CACHE=off keeps it from being read or written.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from pellucid.data.pictures import trouble_of
from pellucid.data.sources import unreadable

FORMAT = 1
LARGEST_FILE = 256 << 20


class Seen(NamedTuple):
    """One image: its size, the hash of its bytes, and what is wrong with it, if anything."""

    width: int
    height: int
    sha256: str
    is_animated: bool
    trouble: str


class Index:
    """Looks at images, and only once at those that have not changed."""

    def __init__(self, folder: Path, is_kept: bool) -> None:
        self._is_kept = is_kept and os.environ.get("PELLUCID_CACHE") != "off"
        self._folder = folder.absolute()
        self._known: dict[str, tuple[int, int, Seen]] = {}
        self._is_new = False
        if self._is_kept:
            self._known = self._read()

    def look(self, path: Path, status: os.stat_result) -> Seen:
        """What is known of the image at `path`, from memory or by decoding it."""
        key = os.fsencode(path.name).hex() + "/" + os.fsencode(path.parent.name).hex()
        stamp = (status.st_size, status.st_mtime_ns)
        held = self._known.get(key)
        if held and held[:2] == stamp:
            return held[2]
        seen = _looked(path)
        self._known[key] = (*stamp, seen)
        self._is_new = True
        return seen

    def keep(self) -> None:
        """Write the memory; a folder that cannot be written to is no trouble, only slower next time."""
        if not self._is_kept or not self._is_new:
            return
        with contextlib.suppress(OSError):
            place = self._place()
            place.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=".tmp-", dir=place.parent)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                json.dump({"format": FORMAT, "files": self._known}, file)
            os.replace(temporary, place)

    def _read(self) -> dict[str, tuple[int, int, Seen]]:
        """The memory of an earlier run; whatever is odd about it is forgotten."""
        try:
            stored = json.loads(self._place().read_text(encoding="ascii"))
            if stored["format"] != FORMAT:
                return {}
            return {key: (int(row[0]), int(row[1]), _checked(row[2])) for key, row in stored["files"].items()}
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            return {}

    def _place(self) -> Path:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        name = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:32]
        return Path(cache) / "pellucid" / f"images-{name}.json"


def _checked(row: list[object]) -> Seen:
    width, height, sha256, is_animated, trouble = row
    if not (
        isinstance(width, int) and isinstance(height, int) and isinstance(sha256, str) and isinstance(trouble, str)
    ):
        raise TypeError
    return Seen(width, height, sha256, bool(is_animated), trouble)


def _looked(path: Path) -> Seen:
    try:
        if path.lstat().st_size > LARGEST_FILE:
            return Seen(0, 0, "", False, f"larger than {LARGEST_FILE >> 20} MB")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read()
    except OSError as error:
        return Seen(0, 0, "", False, unreadable(path, error).what)
    width, height, is_animated, trouble = trouble_of(content)
    return Seen(width, height, hashlib.sha256(content).hexdigest(), is_animated, trouble)
