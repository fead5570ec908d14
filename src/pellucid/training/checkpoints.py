"""What is kept of a network on the disk: checkpoints that survive any kill, and the best weights of a run.

    checkpoints/.tmp-<random>/      being written; ignored, and swept at the next start
    checkpoints/step-000001200/     model.safetensors, optimizer.safetensors and state.json that vouches for both
    checkpoints/.trash-<random>/    being deleted
    model.safetensors, model.json   the best weights so far, and what vouches for them

Tensors are safetensors, nothing is ever unpickled, and files are believed only by their SHA-256 and after every check.
Checkpoints are written aside, synchronised and renamed. There is no state of random numbers, batches or schedules to
save: all of them are functions of the step.

The best weights are two files, which cannot change at one moment. So model.json first vouches for the new weights
beside the old ones, then the weights change, then it vouches for the new ones alone: whoever reads at any moment, and
however the writer ends, the weights that are there are vouched for.
"""

import errno
import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.data.prepare.tokens import Corpus
from pellucid.errors import NotWritten, PellucidError, quoted
from pellucid.models.catalogue import NetworkCard, find_network
from pellucid.models.contracts import Network, SequenceModel
from pellucid.models.counting import COUNT_MODELS
from pellucid.models.counting.ngram import NGram, NGramConfig
from pellucid.models.sequences.on_counting import COUNTS_FILE, OnCounting, counted_from_tensors, with_own_scores
from pellucid.records import NetworkFacts
from pellucid.records.plain import from_plain
from pellucid.runs import Run
from pellucid.runs.disk import (
    LARGEST_JSON,
    TEMPORARY,
    Damaged,
    checksummed_json,
    fsync_path,
    read_checksummed,
    read_regular,
    temporary_beside,
    write_new,
    write_whole,
)
from pellucid.runs.folder import RECORD, TRASH, checkpoint_at, checkpoint_steps, checkpoints_of, delete_checkpoints
from pellucid.runs.logs import log_places, places_from
from pellucid.runs.seal import damage_in, read_seal
from pellucid.training.tensor_files import damaged_file, first_nonfinite, from_safetensors, to_safetensors

FILES = ("model.safetensors", "optimizer.safetensors")
STATE = "state.json"
KEPT = 2
FULL = (errno.ENOSPC, errno.EDQUOT)
WEIGHTS = "model.safetensors"
VOUCHER = "model.json"
LARGEST = 64 << 30


class Checkpoint(NamedTuple):
    """A run at one step, read back and checked."""

    step: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    unused: Mapping[int, str]  # the steps of newer ones that are not whole, and what is wrong with each


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
    """The newest checkpoint that is whole, and what is wrong with newer ones; None when there is none at all.

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
        if content.get("record", _record_digest(run)) != _record_digest(run):
            raise damage_in(run, RECORD, "it is not the one that the checkpoints were made with")
        return Checkpoint(steps[0], model, optimizer, content["state"], refused)
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
            delete_checkpoints(run, [step for step in checkpoint_steps(run) if step < whole[-1] and step not in keep])
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
        "record": _record_digest(run),
        "files": {
            name: {"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()} for name, part in parts.items()
        },
        "logs": {log: {"bytes": place.n_bytes, "check": place.check} for log, place in log_places(run).items()},
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
            delete_checkpoints(run, [step])
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
    try:
        places_from(content["logs"])
    except ValueError as error:
        raise Damaged(f"{STATE} is damaged: {error}", fix="Take it from a copy of the run") from error
    parts = {}
    for name in FILES:
        said = content["files"][name]
        part = read_regular(folder / name, said["bytes"])
        if len(part) != said["bytes"] or hashlib.sha256(part).hexdigest() != said["sha256"]:
            raise Damaged(f"{name} is not what was written", fix="Take the file from a copy of the run")
        parts[name] = part
    return content, parts


def _record_digest(run: Path) -> str:
    """The SHA-256 of run.json, so that a checkpoint belongs to one run."""
    return hashlib.sha256(read_regular(run / RECORD, LARGEST_JSON)).hexdigest()


def _is_manifest(content: Mapping[str, Any]) -> bool:
    """Whether a checksummed file has the shape of state.json; before format 2 it did not tell of run.json."""
    kinds = {
        "step": int,
        "files": dict,
        "logs": dict,
        "state": dict,
        **({"record": str} if "record" in content else {}),
    }
    return (
        set(content) == set(kinds)
        and all(type(content[name]) is kind for name, kind in kinds.items())
        and set(content["files"]) == set(FILES)
        and all(
            type(said) is dict
            and type(said.get("bytes")) is int
            and 0 <= said["bytes"] <= LARGEST
            and type(said.get("sha256")) is str
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
    delete_checkpoints(run, older)
    return bool(older)


def save_best(run: Path, step: int, tensors: Mapping[str, Tensor]) -> None:
    """Put these weights in the place of the best ones."""
    content = to_safetensors(tensors)
    new = {"step": step, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    try:
        try:
            old = [said for said in _read_voucher(run) if said != new]
        except (FileNotFoundError, Damaged):
            old = []
        write_whole(run / VOUCHER, checksummed_json({"weights": [new, *old]}))
        write_whole(run / WEIGHTS, content)
        write_whole(run / VOUCHER, checksummed_json({"weights": [new]}))
    except OSError as error:
        raise NotWritten(f"the best weights could not be saved: {error.strerror}", run=run.name) from error


def load_best(run: Path) -> tuple[dict[str, Tensor], int]:
    """The best weights of a run and the step they are from. May be called while another process trains."""
    seal = read_seal(run)
    seen: tuple[object, str] | None = None
    while True:
        try:
            vouched = _read_voucher(run)
            content = read_regular(run / WEIGHTS, max(said["bytes"] for said in vouched))
            digest = hashlib.sha256(content).hexdigest()
        except FileNotFoundError as error:
            if seal is not None or _list_steps(run):
                # The best weights are there before the first checkpoint is.
                raise damage_in(run, Path(error.filename).name, "it is missing") from error
            raise PellucidError(
                f"{run.name} has no weights yet", fix=f"Go on with pellucid train --resume {run.name}"
            ) from error
        except OSError as error:
            vouched, digest, content = [], error.strerror or "", b""
        for said in vouched:
            if said["bytes"] == len(content) and said["sha256"] == digest:
                if seal is not None:
                    seal.require(WEIGHTS, content)
                return from_safetensors(content, WEIGHTS), said["step"]
        if seen == (vouched, digest):
            raise damage_in(run, WEIGHTS, "its content is not what was written")
        # Perhaps the files changed between the two readings; what is still the same then is damaged.
        seen = (vouched, digest)


def load_network(run: Run) -> tuple[Network, int]:
    """The network of a run with the weights that did best on dev, and the step they are from."""
    if run.model in COUNT_MODELS:
        raise PellucidError(
            f"{run.name} is a run of {run.model}, which only counts: it has no network",
            fix=f"Try pellucid sample {run.name}, or train a network",
        )
    card = find_network(run.model, run.kind)
    config = card.config_from(run.config)
    require_plausible_size(run, card, config)
    is_on_counting = run.start == "counts"
    model: Network = card.build(with_own_scores(config) if is_on_counting else config)
    if is_on_counting:
        assert isinstance(model, SequenceModel)
        model = OnCounting(model, load_counts(run))
    tensors, step = load_best(run.path)
    require_matching_weights(model, tensors)
    model.load_state_dict(tensors)
    return model, step


def require_plausible_size(run: Run, card: NetworkCard, config: Any) -> None:
    """Refuse a config that asks for far more than the run says its network has, before memory is taken for it."""
    if "network" not in run.record:
        return
    said = from_plain(NetworkFacts, run.record["network"])
    if int(getattr(config, "depth", 0)) > len(said.layers):
        raise damage_in(
            run.path, RECORD, f"config.depth cannot be {config.depth:,}: there are {len(said.layers)} parameters"
        )
    try:
        with torch.device("meta"):
            n_numbers = sum(one.numel() for one in card.build(config).parameters())
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError):
        return  # what cannot be built without memory is built with it
    if n_numbers > 2 * said.parameters + (1 << 20):
        raise damage_in(
            run.path, RECORD, f"config asks for {n_numbers:,} weights, and network.parameters is {said.parameters:,}"
        )


def load_counts(run: Run) -> NGram:
    """What the network of a run starts from, counted again."""
    tokens, order = load_counted_tokens(run)
    return NGram.fit(tokens, NGramConfig(int(str(run.config["vocab_size"])), order))


def load_counted_tokens(run: Run) -> tuple[Corpus, int]:
    """The tokens that were counted for a run, and up to which order."""
    tensors = from_safetensors(run.read_file(COUNTS_FILE, LARGEST), COUNTS_FILE)
    vocab_size = int(str(run.config["vocab_size"]))
    closing = vocab_size - 1 if run.record.get("reading", {}).get("boundary") == "two" else 0
    try:
        return counted_from_tensors(tensors, vocab_size, has_boundary=run.kind == "list", closing=closing)
    except ValueError as error:
        raise damaged_file(COUNTS_FILE, str(error)) from error


def _read_voucher(run: Path) -> list[dict[str, Any]]:
    try:
        content = read_checksummed(run / VOUCHER).get("weights")
    except Damaged as error:
        raise damage_in(run, VOUCHER, "its content is not what was written") from error
    kinds = {"step": int, "bytes": int, "sha256": str}
    is_one = isinstance(content, list) and all(
        type(said) is dict
        and set(said) == set(kinds)
        and all(type(said[name]) is kind for name, kind in kinds.items())
        and 0 <= said["bytes"] <= LARGEST
        for said in content
    )
    if not is_one or not content:
        raise damage_in(run, VOUCHER, "weights does not say which weights are vouched for")
    vouched: list[dict[str, Any]] = content
    return vouched


def require_matching_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not this model's, naming in one line what differs."""
    wanted = model.state_dict()
    missing = [name for name in wanted if name not in tensors]
    extra = [name for name in tensors if name not in wanted]
    for names, says in ((missing, "the checkpoint lacks"), (extra, "the model has no place for")):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise _other_model(f"{says} {quoted(names[0])}{more}")
    differing = [name for name in wanted if wanted[name].shape != tensors[name].shape]
    if differing:
        symbols = _other_vocabulary(model, {name: (wanted[name], tensors[name]) for name in differing})
        if symbols:
            raise _other_model(f"checkpoint has {symbols} symbols, data has {model.vocab_size}")
        name = differing[0]
        came, due = (" × ".join(map(str, one[name].shape)) or "one number" for one in (tensors, wanted))
        raise _other_model(f"{quoted(name)} is {came} in the checkpoint and {due} in the model")
    for name, tensor in wanted.items():
        if tensor.dtype != tensors[name].dtype:
            raise _other_model(f"{quoted(name)} is {tensors[name].dtype} in the checkpoint and {tensor.dtype} here")


def _other_vocabulary(model: nn.Module, pairs: Mapping[str, tuple[Tensor, Tensor]]) -> int:
    """How many symbols the checkpoint has, if that alone explains every difference; else 0."""
    here = getattr(model, "vocab_size", 0)
    there: set[int] = set()
    for due, came in pairs.values():
        if due.dim() != came.dim():
            return 0
        changed = {(a, b) for a, b in zip(due.shape, came.shape, strict=True) if a != b}
        # A sum over several symbols at once scales with the vocabulary too, as in a table of n-grams.
        if {a for a, _ in changed} != {here}:
            return 0
        there |= {b for _, b in changed}
    return there.pop() if len(there) == 1 else 0


def _other_model(what: str) -> PellucidError:
    return PellucidError(what, fix="Go on with the data and settings of the run, or train a new one")
