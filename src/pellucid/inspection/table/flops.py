"""FLOPs, counted in two ways that know nothing of each other, so that each can show the other's mistakes.

By operation: what was really dispatched, counted by the shapes it was given. By formula: what a module must cost by its
kind and the shapes that went in and out, whatever torch then runs.

A multiplication with its addition is 2. Counted are products of sums: matrix products, convolutions, attention's two
products and the gates of recurrent layers. What is done number by number (a bias, a norm, an activation, a softmax, a
lookup, a pooling) is counted 0: it grows as the activations do, and moving them costs more than computing them. Causal
attention is counted whole, also where a kernel passes over the half that is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from torch import Tensor, nn

Arguments = Mapping[str, Any]  # of one operation, by the names of its schema
FlopRule = Callable[[Arguments, Any], int]  # its arguments and what it gave


def matmul_flops(left: Sequence[int], right: Sequence[int]) -> int:
    """(..., n, m) times (..., m, p): n·p sums of m products, for each matrix of the left.

    >>> matmul_flops((2, 3, 4), (2, 4, 5))
    240
    """
    return 2 * prod(left) * right[-1]


def _product_of(left: str, right: str) -> FlopRule:
    """Of an operation whose two factors have these names."""
    return lambda given, out: matmul_flops(given[left].shape, given[right].shape)


def _numbers_of(name: str) -> FlopRule:
    """Of a matrix or a vector times a vector: each number of it is multiplied once."""
    return lambda given, out: 2 * given[name].numel()


def _convolution_rule(given: Arguments, out: Any) -> int:
    """Each number that is made, or if transposed each that is spread, costs one sum over a filter."""
    spread: Tensor = given["input"] if given.get("transposed", False) else out
    weight: Tensor = given["weight"]
    return 2 * spread.numel() * prod(weight.shape[1:])


def _attention_rule(given: Arguments, out: Any) -> int:
    """(batch, heads, n, d), (batch, fewer heads, m, d) and (batch, fewer heads, m, t): scores, and what they mix."""
    shapes: list[Sequence[int]] = [given[name].shape for name in ("query", "key", "value")]
    queries, keys, values = shapes
    return 2 * prod(queries[:-1]) * keys[-2] * (queries[-1] + values[-1])


def _native_attention(given: Arguments, out: Any) -> int:
    """The kernel of nn.MultiheadAttention: three projections, attention, one more."""
    queries, keys = given["query"].shape, given["key"].shape
    return _whole_attention(queries, keys, width=given["embed_dim"])


def _encoder_layer(given: Arguments, out: Any) -> int:
    """The kernel of nn.TransformerEncoderLayer: the same, and two layers of feed-forward."""
    stream = given["src"].shape
    wide = given["ffn_weight_1"].shape[0]
    return _whole_attention(stream, stream, width=given["embed_dim"]) + 2 * matmul_flops(stream, (stream[-1], wide))


def _whole_attention(queries: Sequence[int], keys: Sequence[int], width: int) -> int:
    n, m = prod(queries[:-1]), prod(keys[:-1])
    return 2 * width * width * (2 * n + 2 * m) + 4 * n * keys[-2] * width


def _recurrent_rule(given: Arguments, out: Any) -> int:
    """Each step multiplies what comes and what was by the weights of all gates.

    One layer and direction of an LSTM has two weights; all layers at once have a list, in which vectors are biases.
    """
    steps: int = prod(given["input"].shape[:-1])
    weights: list[Tensor] = given["weight"] if "weight" in given else [given["weight0"], given["weight1"]]
    return sum(2 * steps * weight.numel() for weight in weights if weight.dim() == 2)


def _trilinear(given: Arguments, out: Any) -> int:
    """Of nn.Bilinear: for each output a matrix between two vectors."""
    inputs: Tensor = given["i1"]
    weight: Tensor = given["i2"]
    outputs, left, right = weight.shape
    return 2 * (inputs.numel() // left) * outputs * right * (left + 1)


RULES: Mapping[str, FlopRule] = {
    **dict.fromkeys(("mm", "bmm", "_int_mm", "_scaled_mm"), _product_of("self", "mat2")),
    **dict.fromkeys(("addmm", "_addmm_activation"), _product_of("mat1", "mat2")),
    **dict.fromkeys(("baddbmm", "addbmm"), _product_of("batch1", "batch2")),
    **dict.fromkeys(("mv", "dot", "vdot"), _numbers_of("self")),
    "addmv": _numbers_of("mat"),
    "linear": lambda given, out: 2 * given["input"].numel() * given["weight"].shape[0],
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable"), _convolution_rule),
    **{
        f"_scaled_dot_product_{kernel}": _attention_rule
        for kernel in (
            *("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention"),
            "fused_attention_overrideable",
        )
    },
    "_native_multi_head_attention": _native_attention,
    "_transformer_encoder_layer_fwd": _encoder_layer,
    **dict.fromkeys(("mkldnn_rnn_layer", "_cudnn_rnn"), _recurrent_rule),
    "_trilinear": _trilinear,
}

# These cost products too, and there is no rule for them: they are named, so that nobody takes the sum for the whole.
_WITHOUT_A_RULE = ("_fft_", "linalg_", "_linalg_", "cholesky", "_cholesky", "_cdist", "_sparse", "sparse_", "_grouped")


def named_arguments(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What an operation was given, by the names of its schema; what was left out is left out here too."""
    names = [argument.name for argument in operation._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def short_name(operation: Any) -> str:
    """`aten.mm.default` is "mm"; what does not come with torch keeps its family: "quantized.linear"."""
    name = str(operation.overloadpacket.__name__)
    return name if operation.namespace in ("aten", "prim", "prims") else f"{operation.namespace}.{name}"


def has_no_rule(name: str) -> bool:
    """Whether an operation has products that nobody here can count.

    >>> has_no_rule("_fft_r2c"), has_no_rule("quantized.linear"), has_no_rule("relu")
    (True, True, False)
    """
    is_foreign = "." in name and not name.startswith("profiler.")
    return is_foreign or name.startswith(_WITHOUT_A_RULE)


def flops_of(name: str, given: Arguments, out: Any) -> int:
    """FLOPs of one operation by its name, its arguments and what it gave.

    >>> import torch
    >>> flops_of("mm", {"self": torch.zeros(3, 4), "mat2": torch.zeros(4, 5)}, torch.zeros(3, 5))
    120
    """
    rule = RULES.get(name)
    return 0 if rule is None else rule(given, out)


Shapes = Sequence[Sequence[int]]  # of the tensors that went in, or came out, in order
Formula = Callable[[Any, Shapes, Shapes], int]


def _linear(module: nn.Linear, ins: Shapes, outs: Shapes) -> int:
    return 2 * prod(outs[0]) * module.in_features


def _bilinear(module: nn.Bilinear, ins: Shapes, outs: Shapes) -> int:
    return 2 * prod(outs[0]) * module.in2_features * (module.in1_features + 1)


def _convolution(module: nn.Conv2d, ins: Shapes, outs: Shapes) -> int:
    """Each number of the output is a sum over a window of the channels of its group."""
    return 2 * prod(outs[0]) * (module.in_channels // module.groups) * prod(module.kernel_size)


def _transposed_convolution(module: nn.ConvTranspose2d, ins: Shapes, outs: Shapes) -> int:
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
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), _convolution),
    **dict.fromkeys((nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d), _transposed_convolution),
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
            return FORMULAS.get(kind, lambda *_: 0) if type(module).forward is kind.forward else None
    return None
