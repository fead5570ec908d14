"""The best weights of a run so far: model.safetensors, and model.json that vouches for it.

Two files cannot change at one moment. So model.json first vouches for the new weights beside the old ones, then the
weights change, then it vouches for the new ones alone: whoever reads at any moment, and however the writer ends, the
weights that are there are vouched for.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from pellucid.errors import NotWritten, PellucidError
from pellucid.runs.disk import read_regular, write_whole
from pellucid.runs.sealed import Damaged, read_sealed, sealed
from pellucid.training.tensors import packed, unpacked

WEIGHTS = "model.safetensors"
VOUCHER = "model.json"
LARGEST = 64 << 30


def save_best(run: Path, step: int, tensors: Mapping[str, Tensor]) -> None:
    """Put these weights in the place of the best ones."""
    content = packed(tensors)
    new = {"step": step, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    try:
        try:
            old = [said for said in _vouched(run) if said != new]
        except (FileNotFoundError, Damaged):
            old = []
        write_whole(run / VOUCHER, sealed({"weights": [new, *old]}))
        write_whole(run / WEIGHTS, content)
        write_whole(run / VOUCHER, sealed({"weights": [new]}))
    except OSError as error:
        raise NotWritten(f"the best weights could not be saved: {error.strerror}", run=run.name) from error


def load_best(run: Path) -> tuple[dict[str, Tensor], int]:
    """The best weights of a run and the step they are from. May be called while another process trains."""
    seen: tuple[object, str] | None = None
    while True:
        try:
            vouched = _vouched(run)
            content = read_regular(run / WEIGHTS, max(said["bytes"] for said in vouched))
            digest = hashlib.sha256(content).hexdigest()
        except FileNotFoundError as error:
            raise PellucidError(
                f"{run.name} has no weights yet", fix=f"Go on with pellucid train --resume {run.name}"
            ) from error
        except OSError as error:
            vouched, digest, content = [], error.strerror or "", b""
        for said in vouched:
            if said["bytes"] == len(content) and said["sha256"] == digest:
                return unpacked(content, WEIGHTS), said["step"]
        if seen == (vouched, digest):
            raise Damaged(f"{WEIGHTS} of {run.name} is not what was written", fix="Take it from a copy of the run")
        # Perhaps the files changed between the two readings; what is still the same then is damaged.
        seen = (vouched, digest)


def _vouched(run: Path) -> list[dict[str, Any]]:
    content = read_sealed(run / VOUCHER).get("weights")
    kinds = {"step": int, "bytes": int, "sha256": str}
    is_one = isinstance(content, list) and all(
        type(said) is dict
        and set(said) == set(kinds)
        and all(type(said[name]) is kind for name, kind in kinds.items())
        and 0 <= said["bytes"] <= LARGEST
        for said in content
    )
    if not is_one or not content:
        raise Damaged(f"{VOUCHER} of {run.name} is damaged", fix="Take it from a copy of the run")
    vouched: list[dict[str, Any]] = content
    return vouched
