"""Tensors as safetensors files: equal tensors give equal bytes, and a file is checked before it is used."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as safetensors_load
from safetensors.torch import save as safetensors_save
from torch import Tensor

from pellucid.errors import quoted
from pellucid.runs.disk import Damaged

LONGEST_HEADER = 8 << 20
MOST_TENSORS = 20_000


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
        raise damaged_file(what, "it is no safetensors file") from error
    if odd:
        raise damaged_file(what, f"{quoted(odd)} holds numbers that are not finite")
    return tensors


def first_nonfinite(tensors: Mapping[str, Tensor]) -> str:
    """The first tensor that holds a nan or an infinity, or "" when there is none.

    >>> first_nonfinite({"a": torch.ones(2), "b": torch.tensor([1.0, float("nan")])})
    'b'
    """
    return next((name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())), "")


def _require_sane_header(content: bytes, what: str) -> None:
    """The limits of the format, before its library is trusted with the file."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > LONGEST_HEADER or 8 + length > len(content):
        raise damaged_file(what, "its header does not fit")
    try:
        header = json.loads(content[8 : 8 + length].decode("utf-8"), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise damaged_file(what, "its header is damaged") from error
    if not isinstance(header, dict) or len(header) > MOST_TENSORS:
        raise damaged_file(what, f"it does not name at most {MOST_TENSORS:,} tensors")
    end = 0
    for begins, ends in sorted(_span(item) for item in header.values()):
        if begins != end:
            raise damaged_file(what, "its tensors overlap or leave gaps")
        end = ends
    if 8 + length + end != len(content):
        raise damaged_file(what, "bytes come after its last tensor")


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


def damaged_file(what: str, why: str) -> Damaged:
    return Damaged(f"{what} is damaged: {why}", fix="Take the file from a copy of the run")
