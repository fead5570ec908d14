"""JSON that knows whether it was changed: one object with the SHA-256 of the rest of itself.

Every byte counts. A file is believed only if writing its content again gives the same bytes.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.errors import PellucidError, quoted
from pellucid.records import as_plain
from pellucid.runs.disk import read_regular

FORMAT = 1
LARGEST = 64 << 20
OURS = {"format", "sha256"}


class Damaged(PellucidError):
    """A file of a run is not what was written."""


def sealed(content: Mapping[str, object]) -> bytes:
    """The content as a JSON file with its format and its seal.

    >>> print(sealed({"step": 3}).decode())
    {
     "format": 1,
     "step": 3,
     "sha256": "6837c3089c6458381ff10fda4477c45963cd8f906164d0c35062af9d1d5ab5bd"
    }
    <BLANKLINE>
    """
    if taken := OURS & set(content):
        raise ValueError(f"{taken} cannot be a name of the content")
    return _with_seal({"format": FORMAT, **{name: as_plain(item) for name, item in content.items()}})


def read_sealed(path: Path) -> dict[str, Any]:
    """The content of a sealed file; one that was changed, or that a newer pellucid made, is refused.

    A missing file is an OSError, for whoever asks knows what that means.
    """
    return unsealed(read_regular(path, LARGEST), path)


def unsealed(text: bytes, path: Path) -> dict[str, Any]:
    """What `sealed` was given. The path is for the messages alone."""
    where = f"in {quoted(str(path), 80)}"
    try:
        content = json.loads(text.decode("ascii"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"the JSON is damaged {where}", fix="Take the file from a copy of the run") from error
    if not isinstance(content, dict):
        raise Damaged(f"there is no JSON object {where}", fix="Take the file from a copy of the run")
    version = content.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise PellucidError(f"format {version} was made by a newer pellucid {where}", fix="Install that version")
    seal = content.pop("sha256", None)
    if not isinstance(seal, str) or version != FORMAT or _with_seal(content) != text:
        raise Damaged(f"the content is not what was written {where}", fix="Take the file from a copy of the run")
    del content["format"]
    return content


def _with_seal(content: Mapping[str, object]) -> bytes:
    text = json.dumps(content, indent=1, allow_nan=False)
    seal = hashlib.sha256(text.encode("ascii")).hexdigest()
    return (json.dumps({**content, "sha256": seal}, indent=1, allow_nan=False) + "\n").encode("ascii")


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no JSON")
