"""Inputs for a module: made up in a shape, or guessed from its first layers."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.expression.syntax import InputShape
from pellucid.inspection.instrument.isolation import borrow_module
from pellucid.inspection.shapes.causes import attempt_forward

ROWS, TIME = 2, 16
SIZES = (32, 28, 64, 224, 96, 128, 48, 16, 8)  # of images, the usual ones first
LARGEST_SIDE = 300
MOST_SECONDS = 2.0  # of trying sizes


class GuessedInputs(NamedTuple):
    """Inputs that a module seems to want, and why; none where it cannot be told."""

    shapes: tuple[InputShape, ...]
    description: str


def make_inputs(shapes: Sequence[InputShape], model: nn.Module) -> tuple[Tensor, ...]:
    """Numbers in these shapes, the same every time; tokens are such as the module knows.

    >>> make_inputs([InputShape((2, 3), "int")], nn.Embedding(5, 4))[0].max() < 5
    tensor(True)
    """
    draw = torch.Generator().manual_seed(0)
    known = [one.num_embeddings for one in nn.Module.modules(model) if isinstance(one, nn.Embedding | nn.EmbeddingBag)]
    below = max(1, known[0]) if known else 2
    device = "meta" if any(one.is_meta for one in nn.Module.parameters(model)) else "cpu"
    return tuple(_draw(shape, below, draw).to(device) for shape in shapes)


def _draw(shape: InputShape, below: int, draw: torch.Generator) -> Tensor:
    if shape.kind == "int":
        return torch.randint(0, below, shape.sizes, generator=draw)
    if shape.kind == "bool":
        return torch.randint(0, 2, shape.sizes, generator=draw).bool()
    numbers = torch.randn(shape.sizes, generator=draw)
    return numbers.double() if shape.kind == "double" else numbers


def guess_inputs(model: nn.Module) -> GuessedInputs:
    """The inputs that a module seems to want, from its kind and its first layers, and those of them that run.

    >>> guess_inputs(nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 26 * 26, 10))).shapes
    (InputShape(sizes=(2, 3, 28, 28), kind='float'),)
    """
    first: tuple[InputShape, ...] = ()
    n_wanted = _n_wanted(model)
    deadline = time.monotonic() + MOST_SECONDS
    for shapes in _candidates(model):
        if len(shapes) < n_wanted:
            continue
        if first and time.monotonic() > deadline:
            break
        first = first or shapes
        if _runs(model, shapes):
            return GuessedInputs(shapes, f"no input was given: {' and '.join(map(str, shapes))} was guessed")
    if not first:
        return GuessedInputs((), "no input was given and none can be guessed: give one")
    guessed = f"{' and '.join(map(str, first))} was guessed"
    return GuessedInputs(first, f"no input was given: {guessed}, and no other size that was tried fits")


def _n_wanted(model: nn.Module) -> int:
    """How many inputs forward cannot do without."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return 1
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return max(1, sum(one.default is one.empty and one.kind in by_place for one in parameters))


def _candidates(model: nn.Module) -> Iterator[tuple[InputShape, ...]]:
    """Inputs for the first layers that say what they read, the first of them first."""
    said: set[tuple[InputShape, ...]] = set()
    looked_at = 0
    for module in nn.Module.modules(model):
        for shapes in _wanted_by(module):
            if shapes not in said:
                said.add(shapes)
                yield shapes
                looked_at += 1
        if looked_at > LARGEST_SIDE + 3 * len(SIZES):
            return


def _wanted_by(module: nn.Module) -> Iterator[tuple[InputShape, ...]]:
    def numbers(*sizes: int) -> InputShape:
        return InputShape(sizes, "float")

    def sequences(batch_first: bool, width: int) -> InputShape:
        return numbers(*((ROWS, TIME) if batch_first else (TIME, ROWS)), width)

    if isinstance(module, nn.Transformer):
        yield (sequences(module.batch_first, module.d_model),) * 2
    elif isinstance(module, nn.TransformerDecoderLayer):
        yield (sequences(module.self_attn.batch_first, module.self_attn.embed_dim),) * 2
    elif isinstance(module, nn.MultiheadAttention):
        yield (sequences(module.batch_first, module.embed_dim),) * 3
        yield (sequences(module.batch_first, module.embed_dim),)
    elif isinstance(module, nn.Embedding | nn.EmbeddingBag):
        yield (InputShape((ROWS, TIME), "int"),)
        yield (InputShape((ROWS, max(1, min(TIME, module.num_embeddings) // 2)), "int"),)
    elif isinstance(module, nn.RNNBase):
        yield (sequences(module.batch_first, module.input_size),)
    elif isinstance(module, nn.RNNCellBase):
        yield (numbers(ROWS, module.input_size),)
    elif isinstance(module, nn.Bilinear):
        yield numbers(ROWS, module.in1_features), numbers(ROWS, module.in2_features)
    elif isinstance(module, nn.Linear):
        yield (numbers(ROWS, module.in_features),)
        yield (numbers(ROWS, TIME, module.in_features),)
    elif isinstance(module, nn.LayerNorm):
        yield (numbers(ROWS, TIME, *module.normalized_shape),)
    elif isinstance(module, nn.BatchNorm1d):
        yield (numbers(ROWS, module.num_features),)
    elif isinstance(module, nn.BatchNorm2d):
        yield (numbers(ROWS, module.num_features, SIZES[0], SIZES[0]),)
    elif isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.ConvTranspose1d | nn.ConvTranspose2d):
        n_space = len(module.kernel_size)
        # A linear layer behind it may want one size alone, so that all are tried.
        sides = [*SIZES, *range(1, LARGEST_SIDE + 1)] if n_space < 3 else [16, 32, 8]
        for side in dict.fromkeys(sides):
            yield (numbers(ROWS, module.in_channels, *[side] * n_space),)


def _runs(model: nn.Module, shapes: Sequence[InputShape]) -> bool:
    with borrow_module(model) as ours:
        return attempt_forward(ours, make_inputs(shapes, model)).error is None
