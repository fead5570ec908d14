"""Checkpoints that survive any kill: written aside, synchronised, renamed, and believed only by their SHA-256.

    checkpoints/.tmp-<random>/      being written; ignored, and swept at the next start
    checkpoints/step-000001200/     model.safetensors, optimizer.safetensors and state.json that vouches for both
    checkpoints/.trash-<random>/    being deleted

There is no state of random numbers, batches or schedules to save: all of them are functions of the step.
"""

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from pellucid.errors import NotWritten, PellucidError
from pellucid.runs.disk import (
    TEMPORARY,
    Damaged,
    checksummed_json,
    fsync_path,
    read_checksummed,
    read_regular,
    temporary_beside,
    write_new,
)
from pellucid.runs.paths import checkpoint_at, checkpoint_steps, checkpoints_of
from pellucid.runs.writer import log_sizes
from pellucid.training.weights import first_nonfinite, from_safetensors, to_safetensors

TRASH = ".trash-"
FILES = ("model.safetensors", "optimizer.safetensors")
STATE = "state.json"
KEPT = 2
FULL = (errno.ENOSPC, errno.EDQUOT)


class Checkpoint(NamedTuple):
    """A run at one step, read back and checked."""

    step: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    note: str  # what was wrong with newer ones; "" when this is the newest


def save_checkpoint(
    run: Path, step: int, model: Mapping[str, Tensor], optimizer: Mapping[str, Tensor], state: Mapping[str, object]
) -> Path:
    """Write the checkpoint of a step, and with it how long the logs are, which reach the disk first.

    On a full disk older checkpoints make room, but never the newest that is whole.
    """
    for tensors in (model, optimizer):
        if name := first_nonfinite(tensors):
            raise NotWritten(f"{name} is not finite at step {step}, so it was not saved", run=run.name)
    parts = dict(zip(FILES, (to_safetensors(model), to_safetensors(optimizer)), strict=True))
    try:
        try:
            return _write_checkpoint(run, step, parts, state)
        except OSError as error:
            if error.errno not in FULL or not _make_room(run, step):
                raise
            return _write_checkpoint(run, step, parts, state)
    except OSError as error:
        raise NotWritten(f"step {step} could not be saved: {error.strerror}", run=run.name) from error


def newest_checkpoint(run: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole, with a note about newer ones that are not; None when there is none at all.

    May be called while another process trains: a finished checkpoint never changes.
    """
    refused: dict[int, str] = {}
    while steps := [step for step in _list_steps(run) if step not in refused]:
        folder = checkpoint_at(run, steps[0])
        try:
            content, parts = _read_checkpoint(folder, steps[0])
            model, optimizer = (from_safetensors(parts[name], name) for name in FILES)
        except (Damaged, OSError) as error:
            # One that is gone was tidied away while it was read, so there is a newer one by now.
            if os.path.lexists(folder):
                refused[steps[0]] = error.what if isinstance(error, PellucidError) else f"{error.strerror}"
            continue
        note = "".join(f"step {step} is not used: {why}; " for step, why in refused.items())
        return Checkpoint(steps[0], model, optimizer, content["state"], note and f"{note}going on from step {steps[0]}")
    if refused:
        step, why = next(iter(refused.items()))
        raise Damaged(
            f"no checkpoint of {run.name} is whole; of step {step}, {why}", fix="Take them from a copy of the run"
        )
    return None


def delete_old_checkpoints(run: Path, keep: set[int]) -> None:
    """Delete all but the newest two that are whole and those to keep, and what a killed process left half done.

    A checkpoint goes only when two newer ones have been read back; it is renamed first, so that half of one is never
    taken for a whole.
    """
    try:
        for path in list(checkpoints_of(run).iterdir()):
            if path.name.startswith((TEMPORARY, TRASH)):
                shutil.rmtree(path, ignore_errors=True)
        whole = _whole_checkpoints(run, at_most=KEPT)
        if len(whole) == KEPT:
            _delete_checkpoints(run, [step for step in checkpoint_steps(run) if step < whole[-1] and step not in keep])
    except OSError as error:
        raise NotWritten(f"old checkpoints could not be deleted: {error.strerror}", run=run.name) from error


def _list_steps(run: Path) -> list[int]:
    try:
        return checkpoint_steps(run)
    except OSError as error:
        raise PellucidError(
            f"the checkpoints of {run.name} cannot be listed: {error.strerror}", fix="Look at that folder"
        ) from error


def _write_checkpoint(run: Path, step: int, parts: Mapping[str, bytes], state: Mapping[str, object]) -> Path:
    content = {
        "step": step,
        "files": {
            name: {"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()} for name, part in parts.items()
        },
        "logs": log_sizes(run),
        "state": state,
    }
    place = checkpoint_at(run, step)
    temporary = temporary_beside(place)
    try:
        temporary.mkdir()
        for name, part in {**parts, STATE: checksummed_json(content)}.items():
            write_new(temporary / name, part)
        fsync_path(temporary)
        if os.path.lexists(place):
            # Of this step already: damaged, or from a process that ended between saving and going on.
            _delete_checkpoints(run, [step])
        os.rename(temporary, place)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    fsync_path(place.parent)
    return place


def _read_checkpoint(folder: Path, step: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What state.json says and the bytes of both files, each of the size and SHA-256 that it says."""
    found = {name for name in os.listdir(folder) if not name.startswith(".")}
    if odd := found ^ {*FILES, STATE}:
        says = "missing" if odd - found else "not part of it"
        raise Damaged(f"{min(odd - found or odd)} is {says}", fix="Take the folder from a copy of the run")
    content = read_checksummed(folder / STATE)
    if not _is_manifest(content) or content["step"] != step:
        raise Damaged(f"{STATE} does not describe step {step}", fix="Take it from a copy of the run")
    parts = {}
    for name in FILES:
        said = content["files"][name]
        part = read_regular(folder / name, said["bytes"])
        if len(part) != said["bytes"] or hashlib.sha256(part).hexdigest() != said["sha256"]:
            raise Damaged(f"{name} is not what was written", fix="Take the file from a copy of the run")
        parts[name] = part
    return content, parts


def _is_manifest(content: Mapping[str, Any]) -> bool:
    """Whether a checksummed file has the shape of state.json."""
    kinds = {"step": int, "files": dict, "logs": dict, "state": dict}
    return (
        set(content) == set(kinds)
        and all(type(content[name]) is kind for name, kind in kinds.items())
        and all(type(size) is int and size >= 0 for size in content["logs"].values())
        and set(content["files"]) == set(FILES)
        and all(
            type(said) is dict and type(said.get("bytes")) is int and type(said.get("sha256")) is str
            for said in content["files"].values()
        )
    )


def _whole_checkpoints(run: Path, at_most: int) -> list[int]:
    """The steps of the newest checkpoints that are whole, newest first."""
    whole: list[int] = []
    for step in checkpoint_steps(run):
        if len(whole) < at_most:
            try:
                _read_checkpoint(checkpoint_at(run, step), step)
                whole.append(step)
            except (PellucidError, OSError):
                continue
    return whole


def _make_room(run: Path, step: int) -> bool:
    """Delete every whole checkpoint before this step but the newest of them; whether there was one."""
    older = [one for one in _whole_checkpoints(run, at_most=1_000_000) if one < step][1:]
    _delete_checkpoints(run, older)
    return bool(older)


def _delete_checkpoints(run: Path, steps: list[int]) -> None:
    trash = [(checkpoint_at(run, step), checkpoints_of(run) / f"{TRASH}{secrets.token_hex(8)}") for step in steps]
    for place, away in trash:
        os.rename(place, away)
    if trash:
        fsync_path(checkpoints_of(run))
    for _, away in trash:
        shutil.rmtree(away, ignore_errors=True)
