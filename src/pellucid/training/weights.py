"""Weights on the disk: tensors as safetensors, believed only after every check, and the best weights of a run.

Nothing is ever unpickled. The best weights so far are model.safetensors, and model.json holds their SHA-256. Two files
cannot change at one moment. So model.json first vouches for the new weights beside the old ones, then the weights
change, then it vouches for the new ones alone: whoever reads at any moment, and however the writer ends, the weights
that are there are vouched for.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as safetensors_load
from safetensors.torch import save as safetensors_save
from torch import Tensor, nn

from pellucid.errors import NotWritten, PellucidError, quoted
from pellucid.models.catalogue import find_network
from pellucid.models.contracts import Network
from pellucid.runs import Run
from pellucid.runs.disk import Damaged, checksummed_json, read_checksummed, read_regular, write_whole

WEIGHTS = "model.safetensors"
VOUCHER = "model.json"
LARGEST = 64 << 30
LONGEST_HEADER = 8 << 20
MOST_TENSORS = 20_000


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
    seen: tuple[object, str] | None = None
    while True:
        try:
            vouched = _read_voucher(run)
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
                return from_safetensors(content, WEIGHTS), said["step"]
        if seen == (vouched, digest):
            raise Damaged(f"{WEIGHTS} of {run.name} is not what was written", fix="Take it from a copy of the run")
        # Perhaps the files changed between the two readings; what is still the same then is damaged.
        seen = (vouched, digest)


def load_network(run: Run) -> tuple[Network, int]:
    """The network of a run with the weights that did best on dev, and the step they are from."""
    card = find_network(run.model, run.kind)
    model: Network = card.build(card.config_from(run.config))
    tensors, step = load_best(run.path)
    require_matching_weights(model, tensors)
    model.load_state_dict(tensors)
    return model, step


def _read_voucher(run: Path) -> list[dict[str, Any]]:
    content = read_checksummed(run / VOUCHER).get("weights")
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


def to_safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    """The tensors as one safetensors file. The same tensors give the same bytes, in whatever order they come.

    >>> to_safetensors({"a": torch.ones(2)}) == to_safetensors({"a": torch.ones(2)})
    True
    """
    own: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        storage = tensor.untyped_storage()
        # The format has no views: what shares memory, such as tied weights, is written out for each name.
        if storage.data_ptr() in seen or storage.nbytes() != tensor.nbytes:
            tensor = tensor.clone()
        seen.add(storage.data_ptr())
        own[name] = tensor
    content: bytes = safetensors_save(own)
    return content


def from_safetensors(content: bytes, what: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file that may come from anywhere; `what` is its name in messages.

    >>> from_safetensors(to_safetensors({"a": torch.ones(2)}), "weights")
    {'a': tensor([1., 1.])}
    """
    _require_sane_header(content, what)
    try:
        tensors: dict[str, Tensor] = safetensors_load(content)
        odd = first_nonfinite(tensors)
    except (SafetensorError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise _damage_error(what, "it is no safetensors file") from error
    if odd:
        raise _damage_error(what, f"{quoted(odd)} holds numbers that are not finite")
    return tensors


def first_nonfinite(tensors: Mapping[str, Tensor]) -> str:
    """The first tensor that holds a nan or an infinity, or "" when there is none.

    >>> first_nonfinite({"a": torch.ones(2), "b": torch.tensor([1.0, float("nan")])})
    'b'
    """
    return next((name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())), "")


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


def _require_sane_header(content: bytes, what: str) -> None:
    """The limits of the format, before its library is trusted with the file."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > LONGEST_HEADER or 8 + length > len(content):
        raise _damage_error(what, "its header does not fit")
    try:
        header = json.loads(content[8 : 8 + length].decode("utf-8"), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise _damage_error(what, "its header is damaged") from error
    if not isinstance(header, dict) or len(header) > MOST_TENSORS:
        raise _damage_error(what, f"it does not name at most {MOST_TENSORS:,} tensors")
    end = 0
    for begins, ends in sorted(_span(item) for item in header.values()):
        if begins != end:
            raise _damage_error(what, "its tensors overlap or leave gaps")
        end = ends
    if 8 + length + end != len(content):
        raise _damage_error(what, "bytes come after its last tensor")


def _span(item: Any) -> tuple[int, int]:
    """Where a tensor's bytes begin and end; what cannot be is given a place that fits nowhere."""
    match item:
        case {"data_offsets": [int(begins), int(ends)]} if 0 <= begins <= ends:
            return begins, ends
    return -1, -1


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name comes twice")
    return dict(pairs)


def _damage_error(what: str, why: str) -> Damaged:
    return Damaged(f"{what} is damaged: {why}", fix="Take the file from a copy of the run")


def _other_model(what: str) -> PellucidError:
    return PellucidError(what, fix="Go on with the data and settings of the run, or train a new one")
