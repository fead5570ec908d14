"""Torch's answers for a tree, in float64, at all points at once: the twin that pellucid is compared with."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional
from trust.trees import N_POINTS, Case

torch.set_num_threads(1)

# Torch's own softplus is x itself above 20, which is off by 2e-9 there; 700 keeps it honest until exp overflows.
SOFTPLUS_THRESHOLD = 700.0

OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "+": torch.add,
    "-": torch.sub,
    "*": torch.mul,
    "/": torch.div,
    "^": torch.pow,
    "neg": torch.neg,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "leaky_relu": functional.leaky_relu,
    "softplus": lambda a: functional.softplus(a, threshold=SOFTPLUS_THRESHOLD),
    "gelu": functional.gelu,
    "abs": torch.abs,
    "max": lambda *inputs: torch.stack(inputs).amax(0),
    "min": lambda *inputs: torch.stack(inputs).amin(0),
    "sum": lambda *inputs: torch.stack(inputs).sum(0),
    "prod": lambda *inputs: torch.stack(inputs).prod(0),
    "where": lambda condition, a, b: torch.where(condition > 0.0, a, b),
}

_ONES = torch.ones(N_POINTS, dtype=torch.float64)
_NUMBERS: dict[float, Tensor] = {}


def _number(number: float) -> Tensor:
    if number not in _NUMBERS:
        _NUMBERS[number] = torch.full((N_POINTS,), number, dtype=torch.float64)
    return _NUMBERS[number]


def answers(case: Case) -> tuple[list[float], list[list[float]], list[Tensor]]:
    """The values (point), the gradients (variable, point), and every node's values for those who must look closer."""
    results: list[Tensor] = []
    leaves: tuple[Tensor, ...] = ()
    given = None
    if case.variables:
        given = torch.tensor(case.points, dtype=torch.float64, requires_grad=True)
        leaves = given.unbind(0)
    for kind, inputs, number in case.nodes:
        if kind == "variable":
            results.append(leaves[int(number)])
        elif kind == "number":
            results.append(_number(number))
        else:
            results.append(OPERATIONS[kind](*[results[i] for i in inputs]))
    out = results[-1]
    if given is None or not out.requires_grad:
        return out.tolist(), [[0.0] * N_POINTS for _ in case.variables], results
    (gradient,) = torch.autograd.grad(out, given, _ONES)
    return out.tolist(), gradient.tolist(), results


def answers_on_the_road_taken(case: Case, point: int) -> tuple[float, list[float]]:
    """Torch's value and gradients at one point when only the branch that each `where` takes is computed at all.

    This is our reference where torch multiplies the zero of the other branch by an infinite slope and gets nan.
    """
    leaves = [torch.tensor(row[point], dtype=torch.float64, requires_grad=True) for row in case.points]
    with torch.no_grad():
        values: list[Tensor] = []
        for kind, inputs, number in case.nodes:
            values.append(_single(kind, [values[i] for i in inputs], number, leaves))
    chosen = taken(case, [value.item() for value in values])
    results: dict[int, Tensor] = {}
    for index, (kind, inputs, number) in enumerate(case.nodes):
        if index in chosen:
            if kind == "where":
                results[index] = results[road(inputs, values[inputs[0]].item())]
            else:
                results[index] = _single(kind, [results[i] for i in inputs], number, leaves)
    out = results[len(case.nodes) - 1]
    if not out.requires_grad:
        return out.item(), [0.0] * len(leaves)
    gradients = torch.autograd.grad(out, leaves, allow_unused=True)
    return out.item(), [0.0 if gradient is None else gradient.item() for gradient in gradients]


def _single(kind: str, inputs: list[Tensor], number: float, leaves: list[Tensor]) -> Tensor:
    if kind == "variable":
        return leaves[int(number)]
    if kind == "number":
        return torch.tensor(number, dtype=torch.float64)
    return OPERATIONS[kind](*inputs)


def road(inputs: tuple[int, ...], condition: float) -> int:
    """The branch that a `where` takes."""
    return inputs[1] if condition > 0.0 else inputs[2]


def taken(case: Case, values: list[float]) -> set[int]:
    """The nodes whose changes can reach the answer: not the conditions, and not the roads that were not taken."""
    chosen = {len(case.nodes) - 1}
    for index in range(len(case.nodes) - 1, -1, -1):
        if index in chosen:
            kind, inputs, _ = case.nodes[index]
            chosen.update([road(inputs, values[inputs[0]])] if kind == "where" else inputs)
    return chosen
