"""What is dropped on a page, a file or a folder of images, written as it comes and called by names of our own.

A folder comes as one body. For each of its files there is a line of JSON, {"label": "cat", "name": "1.png", "n_bytes":
3}, and then so many bytes. The label is the name of the folder that the file stood in, which is its class; of the name
only letters and digits are kept. What comes lies apart until all of it is there.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from pellucid.errors import PellucidError, quoted
from pellucid.http.answers import Refusal, as_fields, parse_json
from pellucid.lab.app import Lab
from pellucid.records import DatasetFacts

DROPPED = re.compile(r"[0-9a-f]{16}/[A-Za-z0-9_][A-Za-z0-9._-]{0,80}")
ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}")
LONGEST_LABEL = 200  # bytes, of the 255 that a file system allows
LONGEST_LINE = 4096
MOST_IMAGES, MOST_CLASSES = 100_000, 2_000


def safe_name(name: str) -> str:
    """What is left of the name that a file had, for people to know it by.

    >>> safe_name("../../etc/pass wd.TXT"), safe_name(""), safe_name('"><svg onload=x>.csv')
    ('pass-wd.txt', 'data', 'svg-onload-x.csv')
    """
    last = re.split(r"[/\\\\]", name)[-1]
    stem, dot, ending = last.rpartition(".")
    if not stem or not ENDING.fullmatch(f".{ending}"):
        stem, dot, ending = last, "", ""
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", stem).strip("-")[:56] or "data"
    return f"{stem}{dot}{ending.lower()}"


def require_label(label: str) -> str:
    """The name of a class, which is a folder's here too: any text that is one name and shows what it is.

    >>> require_label("Käfer & co")
    'Käfer & co'
    >>> require_label("../x")
    Traceback (most recent call last):
    pellucid.http.answers.Refusal: '../x' cannot be the name of a class. Rename its folder.
    """
    is_one_name = bool(label) and label.isprintable() and not re.search(r"[/\\]", label) and label[0] not in ". "
    if not is_one_name or len(label.encode()) > LONGEST_LABEL:
        raise Refusal(400, f"{quoted(label)} cannot be the name of a class", fix="Rename its folder")
    return label


def dropped_data(lab: Lab, word: str) -> Path:
    """A file or a folder that was dropped, by what it was called in our list."""
    path = lab.dropped / word
    if not DROPPED.fullmatch(word) or path.is_symlink() or not path.exists():
        raise PellucidError("that was never dropped here", fix="Drop it again")
    return path


def dropped_file(lab: Lab, word: str) -> Path:
    """A file that was dropped, by what it was called in our list."""
    path = dropped_data(lab, word)
    if not path.is_file():
        raise PellucidError("a folder was dropped, and one file is wanted", fix="Drop a file")
    return path


async def keep_file(lab: Lab, request: Request) -> DatasetFacts:
    """Write what comes into a file of our own; its folder is called by what is in it."""
    name = safe_name(request.query_params.get("name", "")[:400])
    lab.dropped.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest, n_bytes = hashlib.sha256(), 0
    descriptor, temporary = tempfile.mkstemp(prefix=".tmp-", dir=lab.dropped)
    try:
        with os.fdopen(descriptor, "wb") as file:
            async for part in request.stream():
                digest.update(part)
                n_bytes += len(part)
                await run_in_threadpool(file.write, part)
        if not n_bytes:
            raise Refusal(400, "the file is empty", fix="Drop another")
        folder = lab.dropped / digest.hexdigest()[:16]
        folder.mkdir(exist_ok=True, mode=0o700)
        os.replace(temporary, folder / name)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return DatasetFacts(f"{folder.name}/{name}", "", "", "dropped", n_bytes)


async def keep_folder(lab: Lab, request: Request) -> DatasetFacts:
    """Write the images that come into class folders of our own; all of it is there, or nothing."""
    name = safe_name(request.query_params.get("name", "")[:400])
    lab.dropped.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".tmp-", dir=lab.dropped, ignore_cleanup_errors=True) as temporary:
        received = ReceivedFolder(Path(temporary) / "images")
        try:
            async for part in request.stream():
                await run_in_threadpool(received.write, part)
            digest = received.finish()
        finally:
            received.close()
        folder = lab.dropped / digest[:16]
        folder.mkdir(exist_ok=True, mode=0o700)
        if not (folder / name).exists():
            shutil.move(received.path, folder / name)
    return DatasetFacts(f"{folder.name}/{name}", "images", "", "dropped", received.n_bytes)


@dataclass(frozen=True)
class ImageLine:
    """What stands before the bytes of one image."""

    label: str
    name: str
    n_bytes: int


class ReceivedFolder:
    """A folder that is written while its body comes, in parts that may end anywhere."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n_bytes = self.n_images = 0
        self._labels: set[str] = set()
        self._line = b""
        self._file: BinaryIO | None = None
        self._left = 0
        self._digest = hashlib.sha256(b"folder\n")
        path.mkdir(mode=0o700)

    def write(self, part: bytes) -> None:
        """The next bytes of the body."""
        self._digest.update(part)
        while part:
            if self._file is None:
                line, newline, part = part.partition(b"\n")
                self._line += line
                if len(self._line) > LONGEST_LINE:
                    raise Refusal(400, "a line before an image is too long", fix="Rename the image")
                if newline:
                    self._begin(as_fields(parse_json(self._line), ImageLine))
                    self._line = b""
            else:
                self._file.write(part[: self._left])
                part, self._left = part[self._left :], max(0, self._left - len(part))
                if not self._left:
                    self.close()

    def finish(self) -> str:
        """The digest of all, once the body has ended where an image does."""
        if self._file is not None or self._line:
            raise Refusal(400, "the folder ended in the middle of an image", fix="Drop it again")
        if len(self._labels) < 2:
            what = f"all {self.n_images:,} images are in one folder" if self.n_images else "there are no class folders"
            raise Refusal(400, what, fix="Put each class of images into a folder of its own, and drop what holds them")
        return self._digest.hexdigest()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self, image: ImageLine) -> None:
        if image.n_bytes < 1:
            raise Refusal(400, f"the image {quoted(image.name)} is empty", fix="Leave it out")
        self._labels.add(require_label(image.label))
        self.n_images += 1
        self.n_bytes += image.n_bytes
        if self.n_images > MOST_IMAGES or len(self._labels) > MOST_CLASSES:
            most = f"{MOST_IMAGES:,} images in {MOST_CLASSES:,} classes"
            raise Refusal(413, f"the folder has more than {most}", fix="Use the terminal: pellucid train FOLDER")
        folder = self.path / image.label
        folder.mkdir(exist_ok=True, mode=0o700)
        self._file = (folder / f"{self.n_images:06d}-{safe_name(image.name[:400])}").open("xb")
        self._left = image.n_bytes
