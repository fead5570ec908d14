"""`out[index] += messages` keeps one message for each place, whichever was written last: the others are lost.

Every write by an index while the model and its loss run is looked at: where an index names a place twice with different
values, one of them has no influence on anything.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.recording import InterceptFunctions, function_name
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

MOST_NUMBERS = 1_000_000


class _Writes:
    """What was written by an index while a model ran."""

    def __init__(self) -> None:
        self.n_writes = 0
        self.lost = ""

    def see(self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        name = function_name(function)
        if name in ("setitem", "index_put", "index_copy", "scatter"):
            try_or_none(partial(self._count_lost, name, args, named))
        return function(*args, **named)

    def _count_lost(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Places are numbered, and the numbers written by the same index; what is not found there was overwritten."""
        if named.get("accumulate") or named.get("reduce") or (name == "index_put" and len(args) > 3 and args[3]):
            return
        out, values = args[0], named.get("value", named.get("source", named.get("src", args[-1])))
        index = args[2] if name in ("index_copy", "scatter") and len(args) > 2 else args[1]
        if not _has_whole_numbers(index) or not isinstance(values, Tensor) or out.numel() > MOST_NUMBERS:
            return
        self.n_writes += 1
        read = torch.zeros(out.shape, dtype=torch.float64)
        if name in ("setitem", "index_put"):
            where = tuple(index) if isinstance(index, list) else index
            written = values.detach().double().expand(read[where].shape)
            read[where] = written
            kept = read[where]
        elif name == "index_copy":
            written = values.detach().double()
            kept = read.index_copy(args[1], index, written).index_select(args[1], index)
        else:
            written = values.detach().double()
            kept = read.scatter(args[1], index, written).gather(args[1], index)
        n_lost = int((kept != written).sum())
        if n_lost and bool(written.isfinite().all()):
            self.lost = (
                self.lost or f"{n_lost} of {written.numel()} numbers that were written by an index ({name}) were "
            )
        return


def _has_whole_numbers(index: Any) -> bool:
    parts = index if isinstance(index, tuple | list) else (index,)
    return any(isinstance(one, Tensor) and one.dtype in (torch.int64, torch.int32) and one.dim() for one in parts)


def check(specimen: Specimen) -> Findings:
    copied, writes = specimen.copy("eval"), _Writes()
    if try_or_none(partial(_run_watched, copied, writes)) is None:
        return
    if writes.lost:
        yield Finding.suspicious(
            "the model",
            writes.lost + "written over by others at the same place",
            "an index names a place several times, and only one of its values stays: sums over it are no sums",
            "add them up: out.index_add(0, index, values), scatter_add, or index_put(..., accumulate=True)",
            again="out = torch.zeros(2); out[torch.tensor([0, 0])] += torch.ones(2); print(out)",
        )
    elif writes.n_writes:
        seen = f"{writes.n_writes} writes by an index left every number that was written in its place"
        yield Finding.sound("the model", seen, "no write is lost under another")


def _run_watched(copied: Specimen, writes: _Writes) -> bool:
    with isolate(), torch.no_grad(), InterceptFunctions(writes.see):
        outputs = copied.model(*own_inputs(copied.inputs))
        if copied.has_loss:
            try_or_none(lambda: copied.loss_of(outputs))
    return True


RULE = DoctorRule(
    name="overwritten-places",
    proves="that values written by an index are overwritten by others that name the same place",
    how="watches every write by an index while the model and its loss run, and reads back what stayed",
    check=check,
    cannot_see="places that are named twice in other batches alone",
)
