"""The matrix products of a training step by oneDNN, on processors where those of torch use half of what there is.

torch multiplies by MKL, which has no AVX-512 for some processors of AMD. oneDNN comes with torch as well, and has: on
Zen 5 products of the sizes here reach 220 GFLOP/s where MKL reaches 108. It compiles each new size once, which takes
longer than a product, so rows are filled up with zeros to a multiple of `ROWS`.

Only linear layers, only on the way there and back of a step: what is evaluated, exported or looked at is as ever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from pellucid.records import Plan

MEASURED = (("AuthenticAMD", "26"),)  # makers and families of processors on which oneDNN was the faster: Zen 5
CPUINFO = Path("/proc/cpuinfo")
ROWS = 64
LEAST = 1 << 21  # multiplications, below which a call costs more than it saves


def fast_products(plan: Plan, device: torch.device) -> AbstractContextManager[Any]:
    """Inside, a step's linear layers are computed the faster way, where there is one."""
    is_plain = device.type == "cpu" and plan.precision == "fp32" and not plan.is_compiled
    return FastProducts() if is_plain and are_faster_here() else nullcontext()


@functools.cache
def are_faster_here() -> bool:
    """By what processor it is, and not by a trial: the same run has the same bits."""
    return (
        torch.backends.cpu.get_cpu_capability() == "AVX512"
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch gives it no types
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and CPUINFO.exists()
        and processor(CPUINFO.read_text()) in MEASURED
    )


def processor(cpuinfo: str) -> tuple[str, str]:
    """The maker and the family of the first core.

    >>> processor("processor\\t: 0\\nvendor_id\\t: AuthenticAMD\\ncpu family\\t: 26\\n\\nprocessor\\t: 1")
    ('AuthenticAMD', '26')
    """
    pairs = (line.partition(":") for line in cpuinfo.partition("\n\n")[0].splitlines())
    facts = {name.strip(): value.strip() for name, _, value in pairs}
    return facts.get("vendor_id", ""), facts.get("cpu family", "")


class FastProducts(TorchFunctionMode):
    """Answers `functional.linear` by oneDNN where that pays; everything else is torch's."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is functional.linear and not kwargs and _pays(*args):
            return _Linear.apply(*args, *[None] * (3 - len(args)))  # type: ignore[no-untyped-call]  # torch has no types
        return func(*args, **(kwargs or {}))


def _pays(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
    return (
        type(x) is Tensor
        and type(weight) in (Tensor, nn.Parameter)
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and weight.dim() == 2
        and x.dim() >= 2
        and x.numel() * len(weight) >= LEAST
        and torch.is_grad_enabled()
        and (bias is None or bias.dtype == torch.float32)
    )


class _Linear(torch.autograd.Function):
    """x: (…, k), weight: (n, k), bias: (n,) or None -> (…, n). Kept for the way back are x, filled up, and weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows = x.flatten(0, -2)
        filled = _fill_up(rows)
        ctx.save_for_backward(filled, weight)
        ctx.shape, ctx.has_bias = x.shape, bias is not None
        return _multiply(filled, weight, bias)[: len(rows)].view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        rows = gradient.flatten(0, -2)
        filled = _fill_up(rows)
        of_x = _multiply(filled, weight.t())[: len(rows)].view(ctx.shape) if ctx.needs_input_grad[0] else None
        of_weight = _multiply(filled.t(), x.t()) if ctx.needs_input_grad[1] else None
        return of_x, of_weight, rows.sum(0) if ctx.has_bias else None


def _multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def _fill_up(rows: Tensor) -> Tensor:
    """(n, k) -> (the next multiple of ROWS, k), with zeros behind; where n is one, the same.

    >>> _fill_up(torch.ones(3, 2)).shape, _fill_up(torch.ones(3, 2)).sum()
    (torch.Size([64, 2]), tensor(6.))
    """
    n = -(-len(rows) // ROWS) * ROWS
    if n == len(rows):
        return rows.contiguous()
    filled = rows.new_empty(n, rows.shape[1])
    filled[: len(rows)] = rows
    filled[len(rows) :] = 0
    return filled
