"""One unit of a layer at one place, written as an expression with its numbers: from a network down to a scalar graph.

The expression is in the language of the scalar engine, so that what a layer computes can be derived step by step, and
its value stands beside what the layer itself put out. Layers that are known here read the last dimension, or nothing
but the number at the same place; for others there is no formula, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

Numbers = dict[str, float | list[float]]


class WrittenUnit(NamedTuple):
    """An expression, its numbers, and what each of its names stands for."""

    expression: str
    values: Numbers
    symbols: dict[str, str]


class LayerFormula(NamedTuple):
    """How a kind of layer is written in books, and one unit of it. x: what it reads, (features,)."""

    written: str
    write: Callable[[Any, Tensor, int], WrittenUnit]


def _linear(layer: nn.Linear, x: Tensor, unit: int) -> WrittenUnit:
    values: Numbers = {"w": layer.weight[unit].tolist(), "x": x.tolist()}
    symbols = {"w": f"row {unit} of the weight matrix", "x": "what the layer reads"}
    if layer.bias is None:
        return WrittenUnit("dot(w, x)", values, symbols)
    return WrittenUnit(
        "dot(w, x) + b", {**values, "b": float(layer.bias[unit])}, {**symbols, "b": f"number {unit} of the bias"}
    )


def _layer_norm(layer: nn.LayerNorm, x: Tensor, unit: int) -> WrittenUnit:
    text = f"(x[{unit}] - mean(x)) / sqrt(mean((x - mean(x))^2) + {layer.eps!r})"
    values: Numbers = {"x": x.tolist()}
    symbols = {"x": "what the layer reads"}
    return _with_scale(layer, text, values, symbols, unit)


def _rms_norm(layer: Any, x: Tensor, unit: int) -> WrittenUnit:
    eps = torch.finfo(x.dtype).eps if layer.eps is None else layer.eps
    text = f"x[{unit}] / sqrt(mean(x^2) + {eps!r})"
    return _with_scale(layer, text, {"x": x.tolist()}, {"x": "what the layer reads"}, unit)


def _with_scale(layer: Any, text: str, values: Numbers, symbols: dict[str, str], unit: int) -> WrittenUnit:
    weight, bias = getattr(layer, "weight", None), getattr(layer, "bias", None)
    if weight is not None:
        text, values, symbols = f"g * {text}", {**values, "g": float(weight[unit])}, {**symbols, "g": "its scale"}
    if bias is not None:
        text, values, symbols = f"{text} + b", {**values, "b": float(bias[unit])}, {**symbols, "b": "its shift"}
    return WrittenUnit(text, values, symbols)


def _batch_norm(layer: Any, x: Tensor, unit: int) -> WrittenUnit:
    values: Numbers = {
        "x": float(x[unit]),
        "m": float(layer.running_mean[unit]),
        "v": float(layer.running_var[unit]),
    }
    symbols = {"x": "what the layer reads here", "m": "the running mean", "v": "the running variance"}
    return _with_scale(layer, f"(x - m) / sqrt(v + {layer.eps!r})", values, symbols, unit)


def _softmax(layer: nn.Softmax, x: Tensor, unit: int) -> WrittenUnit:
    return WrittenUnit(f"softmax(z)[{unit}]", {"z": x.tolist()}, {"z": "what the layer reads"})


def _pointwise(text: str) -> Callable[[Any, Tensor, int], WrittenUnit]:
    def write(layer: Any, x: Tensor, unit: int) -> WrittenUnit:
        return WrittenUnit(text, {"x": float(x[unit])}, {"x": "what the layer reads here"})

    return write


def _leaky(layer: nn.LeakyReLU, x: Tensor, unit: int) -> WrittenUnit:
    slope = float(layer.negative_slope)
    return WrittenUnit(
        "max(x, s*x)", {"x": float(x[unit]), "s": slope}, {"x": "what the layer reads here", "s": "its slope below 0"}
    )


FORMULAS: Mapping[str, LayerFormula] = {
    "Linear": LayerFormula("y = W x + b", _linear),
    "LayerNorm": LayerFormula("y = g · (x − mean(x)) / √(var(x) + ε) + b", _layer_norm),
    "RMSNorm": LayerFormula("y = g · x / √(mean(x²) + ε)", _rms_norm),
    "BatchNorm1d": LayerFormula("y = g · (x − m) / √(v + ε) + b, with running m and v", _batch_norm),
    "Softmax": LayerFormula("y_i = exp(z_i) / Σ_j exp(z_j)", _softmax),
    "ReLU": LayerFormula("y = max(0, x)", _pointwise("relu(x)")),
    "Tanh": LayerFormula("y = tanh(x)", _pointwise("tanh(x)")),
    "Sigmoid": LayerFormula("y = 1 / (1 + exp(−x))", _pointwise("sigmoid(x)")),
    "GELU": LayerFormula("y = x · Φ(x)", _pointwise("gelu(x)")),
    "SiLU": LayerFormula("y = x / (1 + exp(−x))", _pointwise("x*sigmoid(x)")),
    "Softplus": LayerFormula("y = ln(1 + exp(x))", _pointwise("softplus(x)")),
    "LeakyReLU": LayerFormula("y = max(x, s·x)", _leaky),
    "Identity": LayerFormula("y = x", _pointwise("x")),
    "Dropout": LayerFormula("y = x, once it is trained", _pointwise("x")),
}


def find_formula(module: nn.Module) -> LayerFormula | None:
    """The formula of a layer; None where there is none, or where it is set to another.

    >>> find_formula(nn.Linear(2, 3)).written, find_formula(nn.Linear(2, 3, bias=False)).written
    ('y = W x + b', 'y = W x')
    >>> find_formula(nn.RMSNorm(4, elementwise_affine=False)).written, find_formula(nn.GELU("tanh"))
    ('y = x / √(mean(x²) + ε)', None)
    """
    if type(module).__module__.split(".")[0] != "torch" or getattr(module, "approximate", "none") != "none":
        return None
    formula = FORMULAS.get(type(module).__name__)
    if formula is None:
        return None
    written = formula.written
    if getattr(module, "weight", None) is None:
        written = written.replace("g · ", "")
    if getattr(module, "bias", None) is None:
        written = written.replace(" + b", "")
    return formula._replace(written=written)


# What a layer of someone's own may turn out to be, when it reads a number and puts out another at the same place.
_RECOGNISED: Mapping[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "relu(x)": ("y = max(0, x)", torch.relu),
    "relu(x)^2": ("y = max(0, x)²", lambda x: torch.relu(x).square()),
    "tanh(x)": ("y = tanh(x)", torch.tanh),
    "sigmoid(x)": ("y = 1 / (1 + exp(−x))", torch.sigmoid),
    "gelu(x)": ("y = x · Φ(x)", nn.functional.gelu),
    "x*sigmoid(x)": ("y = x / (1 + exp(−x))", nn.functional.silu),
    "x": ("y = x", lambda x: x),
}
ENOUGH = 8  # different numbers that a function has to agree on


def recognise_formula(given: Tensor, made: Tensor) -> LayerFormula | None:
    """The function that makes each of these numbers of the one at its place, if exactly one known one does.

    >>> x = torch.linspace(-2, 2, 9)
    >>> recognise_formula(x, x.relu().square()).written
    'y = max(0, x)²'
    """
    if given.shape != made.shape or not given.is_floating_point() or len(set(given.flatten().tolist())) < ENOUGH:
        return None
    near = 1e-9 if given.dtype == torch.float64 else 1e-5
    fitting = [
        LayerFormula(written, _pointwise(text))
        for text, (written, function) in _RECOGNISED.items()
        if torch.allclose(function(given), made, rtol=near, atol=near)
    ]
    return fitting[0] if len(fitting) == 1 else None


@torch.no_grad()
def write_unit(module: nn.Module, given: Tensor, made: Tensor, row: int, unit: int) -> WrittenUnit | None:
    """One unit of a layer on one row of what it reads; None where there is no formula for it.

    given and made: (..., features), whose rows are counted over all dimensions but the last.

    >>> layer = nn.Linear(2, 1)
    >>> x = torch.tensor([[1.0, 2.0]])
    >>> written = write_unit(layer, x, layer(x), 0, 0)
    >>> written.expression, written.values["x"]
    ('dot(w, x) + b', [1.0, 2.0])
    """
    formula = formula_on(module, given, made)
    if formula is None:
        return None
    return formula.write(module, given.detach().reshape(-1, given.shape[-1])[row], unit)


def formula_on(module: nn.Module, given: Tensor, made: Tensor) -> LayerFormula | None:
    """The formula of a layer by its kind, or by what it did to these numbers, if it is one layer and not several."""
    if given.dim() < 1 or not given.is_floating_point():
        return None
    if formula := find_formula(module):
        return formula
    is_single = next(module.children(), None) is None and next(module.parameters(), None) is None
    return recognise_formula(given, made) if is_single else None
