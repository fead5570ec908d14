"""FLOPs by formula: what a module must cost by its kind and the shapes that went in and out, whatever torch then runs.

The convention is that of `operations`; the two are counted apart, so that each can show the other's mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from torch import nn

Shapes = Sequence[Sequence[int]]  # of the tensors that went in, or came out, in order
Formula = Callable[[Any, Shapes, Shapes], int]


def _linear(module: nn.Linear, ins: Shapes, outs: Shapes) -> int:
    return 2 * prod(outs[0]) * module.in_features


def _bilinear(module: nn.Bilinear, ins: Shapes, outs: Shapes) -> int:
    return 2 * prod(outs[0]) * module.in2_features * (module.in1_features + 1)


def _convolution(module: nn.Conv2d, ins: Shapes, outs: Shapes) -> int:
    """Each number of the output is a sum over a window of the channels of its group."""
    return 2 * prod(outs[0]) * (module.in_channels // module.groups) * prod(module.kernel_size)


def _transposed(module: nn.ConvTranspose2d, ins: Shapes, outs: Shapes) -> int:
    """Each number of the input is spread over a window of the channels of its group."""
    return 2 * prod(ins[0]) * (module.out_channels // module.groups) * prod(module.kernel_size)


def _recurrent(gates: int) -> Formula:
    def formula(module: nn.RNNBase, ins: Shapes, outs: Shapes) -> int:
        steps = prod(outs[0][:-1])  # of all sequences together, also where they were packed
        directions = 2 if module.bidirectional else 1
        kept = module.proj_size or module.hidden_size  # what is passed on of a state
        total = 0
        for layer in range(module.num_layers):
            comes = module.input_size if layer == 0 else kept * directions
            each = gates * module.hidden_size * (comes + kept) + module.hidden_size * module.proj_size
            total += 2 * steps * directions * each
        return total

    return formula


def _cell(gates: int) -> Formula:
    def formula(module: nn.RNNCellBase, ins: Shapes, outs: Shapes) -> int:
        return 2 * gates * prod(outs[0]) * (module.input_size + module.hidden_size)

    return formula


def _attention(module: nn.MultiheadAttention, ins: Shapes, outs: Shapes) -> int:
    """Queries, keys and values are projected, compared, mixed, and projected once more.

    queries: (n, width), (batch, n, width) or (n, batch, width); keys and values likewise.
    """
    queries, keys = ins[0], ins[min(1, len(ins) - 1)]
    n, m = prod(queries[:-1]), prod(keys[:-1])  # of all examples
    width: int = module.embed_dim
    read: int = module.kdim + module.vdim
    projections = 2 * n * width * 2 * width + 2 * m * width * read
    length = keys[1] if module.batch_first and len(keys) == 3 else keys[0]
    seen = length + int(module.bias_k is not None) + int(module.add_zero_attn)
    return projections + 2 * 2 * n * seen * width


FORMULAS: Mapping[type[nn.Module], Formula] = {
    nn.Linear: _linear,
    nn.Bilinear: _bilinear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Conv3d: _convolution,
    nn.ConvTranspose1d: _transposed,
    nn.ConvTranspose2d: _transposed,
    nn.ConvTranspose3d: _transposed,
    nn.RNN: _recurrent(gates=1),
    nn.GRU: _recurrent(gates=3),
    nn.LSTM: _recurrent(gates=4),
    nn.RNNCell: _cell(gates=1),
    nn.GRUCell: _cell(gates=3),
    nn.LSTMCell: _cell(gates=4),
    nn.MultiheadAttention: _attention,
}

# Files of torch.nn whose modules work number by number, look up, or only call their parts: no products of their own.
_FREE = {
    f"torch.nn.modules.{name}"
    for name in (
        *("activation", "batchnorm", "channelshuffle", "container", "distance", "dropout", "flatten", "fold"),
        *("instancenorm", "linear", "loss", "normalization", "padding", "pixelshuffle", "pooling", "sparse"),
        *("transformer", "upsampling"),
    )
}


def formula_of(module: nn.Module) -> Formula | None:
    """The formula for a module; None where there is none, as for modules that are not torch's.

    A class that inherits from torch's is still of its kind as long as it has no forward of its own.

    >>> formula_of(nn.Linear(3, 4))(nn.Linear(3, 4), [(2, 3)], [(2, 4)])
    48
    >>> formula_of(nn.LayerNorm(3))(nn.LayerNorm(3), [(2, 3)], [(2, 3)])
    0
    """
    for kind in type(module).__mro__:
        if issubclass(kind, nn.Module) and (kind in FORMULAS or kind.__module__ in _FREE):
            return FORMULAS.get(kind, _nothing) if type(module).forward is kind.forward else None
    return None


def _nothing(module: nn.Module, ins: Shapes, outs: Shapes) -> int:
    return 0
