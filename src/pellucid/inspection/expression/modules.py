"""A module from an expression such as nn.Sequential(nn.Linear(4, 8), nn.ReLU()), made by torch.nn's own constructors.

The tree of `syntax` holds names and plain values. A name must be a class of torch.nn that is a module; nothing else
can be called, so that reading an expression can run no code but those constructors.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pellucid.errors import ExpressionError, PellucidError, TooLarge, did_you_mean, nearest, one_line, quoted
from pellucid.inspection.expression.syntax import (
    Constant,
    ConstructorCall,
    Node,
    ParsedExpression,
    Series,
    expression_error,
    parse_module,
)
from pellucid.inspection.instrument.isolation import first_line, isolate
from pellucid.inspection.instrument.recording import InterceptFunctions

MOST_LAYERS = 1_000  # that one argument may ask for, as num_layers
LARGEST_HELD = 4 << 30  # bytes of weights; a larger module is looked at without its numbers
DIVIDING = ("num_heads", "nhead", "groups", "num_groups")  # what must divide another number
PREFIXES = ("torch.nn.", "nn.", "")
_PLACE = "_pellucid_place"  # where a module keeps its place in the text while it is made
_NEVER_WRITTEN = ("device", "dtype", "_weight", "_freeze")  # arguments


class BuiltModule(NamedTuple):
    """A module, and for each of its paths the place of the text that made it."""

    module: nn.Module
    written: ParsedExpression
    places: Mapping[str, tuple[int, int]]
    is_held: bool  # False: its weights are too large, and only their shapes are known


@functools.cache
def constructors() -> dict[str, type[nn.Module]]:
    """Every module of torch.nn by its name.

    >>> constructors()["Linear"] is nn.Linear
    True
    """
    known = {name: getattr(nn, name) for name in dir(nn) if name not in ("Module", "Container", "DataParallel")}
    return {name: one for name, one in known.items() if isinstance(one, type) and issubclass(one, nn.Module)}


def build_module(text: str) -> BuiltModule:
    """The module that an expression describes.

    >>> build_module("nn.Sequential(nn.Linear(4, 8), nn.ReLU())").module[0].out_features
    8
    """
    written = parse_module(text)
    # First without any memory: what cannot be made, or is too large to be, is known before it is.
    sized = _construct(written, "meta")
    tensors = [one for one in (*sized.parameters(), *sized.buffers()) if not is_lazy(one)]
    n_bytes = sum(one.numel() * one.element_size() for one in tensors)
    is_held = n_bytes <= LARGEST_HELD
    module = _construct(written, "cpu") if is_held else sized
    places = {path: place for path, one in module.named_modules() if (place := one.__dict__.get(_PLACE))}
    for one in module.modules():
        one.__dict__.pop(_PLACE, None)
    return BuiltModule(module, written, places, is_held)


def signature_of(kind: type[nn.Module]) -> inspect.Signature:
    """What a constructor takes, also where torch itself only says *args.

    >>> list(signature_of(nn.LSTM).parameters)[:3]
    ['input_size', 'hidden_size', 'num_layers']
    """
    if not issubclass(kind, nn.RNNBase) or kind is nn.RNNBase:
        return inspect.signature(kind)
    taken = [one for name, one in inspect.signature(nn.RNNBase).parameters.items() if name != "mode"]
    if kind is not nn.LSTM:
        taken = [one for one in taken if one.name != "proj_size"]
    if kind is nn.RNN:
        usual = inspect.Parameter("nonlinearity", inspect.Parameter.POSITIONAL_OR_KEYWORD, default="tanh")
        taken.insert(3, usual)
    return inspect.Signature(taken)


def _leave_unfilled(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Tensors without memory are not filled: torch would load half of itself to do nothing."""
    filled = args[0] if args else named.get("tensor")
    fills = getattr(function, "__name__", "") in ("normal_", "uniform_", "fill_", "zero_", "copy_")
    return filled if fills and isinstance(filled, Tensor) and filled.is_meta else function(*args, **named)


def _construct(written: ParsedExpression, device: str) -> nn.Module:
    with isolate(), torch.device(device), InterceptFunctions(_leave_unfilled):
        module = _Maker(written.text).value(written.root)
    if not isinstance(module, nn.Module):
        raise expression_error("this is no module", written.text, written.root.start, "Write one, as nn.Linear(4, 2)")
    return module


class _Maker:
    """Values from nodes, the innermost first."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.known = constructors()
        self.signatures: dict[str, inspect.Signature] = {}  # of those that were asked for; reading one takes long

    def value(self, node: Node) -> Any:
        if isinstance(node, Constant):
            return node.value
        if isinstance(node, Series):
            items = [self.value(item) for item in node.items]
            return tuple(items) if node.is_tuple else items
        return self.module(node)

    def module(self, call: ConstructorCall) -> nn.Module:
        kind = self.kind_of(call)
        if call.name not in self.signatures:
            self.signatures[call.name] = signature_of(kind)
        signature = self.signatures[call.name]
        by_place = [self.value(node) for keyword, node in call.arguments if not keyword]
        by_name = self.keyword_arguments(call, kind, signature)
        try:
            given = signature.bind(*by_place, **by_name)
        except TypeError as error:
            wanted = ", ".join(_argument_names(signature))
            raise expression_error(
                f"nn.{kind.__name__} does not take these arguments: {error}",
                self.text,
                call.start,
                f"It takes {kind.__name__}({wanted})",
            ) from error
        self.require_few_layers(call, given.arguments)
        try:
            made = kind(*given.args, **given.kwargs)
        except Exception as error:
            raise self.refusal(call, kind, given, error) from error
        made.__dict__[_PLACE] = (call.start, call.end)
        return made

    def kind_of(self, call: ConstructorCall) -> type[nn.Module]:
        prefix = next(one for one in PREFIXES if call.name.startswith(one))
        name = call.name.removeprefix(prefix)
        if name not in self.known:
            meant = nearest(name, self.known) or _nearest_letters(name, self.known)
            raise self.error(
                f"torch.nn has no module called {quoted(name)}",
                call,
                f"Perhaps you meant nn.{meant}" if meant else "Modules of your own go into a file: give file.py:name",
            )
        if not call.is_called:
            raise self.error(f"nn.{name} is a class, and no layer yet", call, f"Write nn.{name}(...) with its brackets")
        return self.known[name]

    def keyword_arguments(
        self, call: ConstructorCall, kind: type[nn.Module], signature: inspect.Signature
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for keyword, node in call.arguments:
            if not keyword:
                continue
            takes_any = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
            if keyword not in signature.parameters and not takes_any:
                raise expression_error(
                    f"nn.{kind.__name__} has no argument called {quoted(keyword)}",
                    self.text,
                    node.start,
                    did_you_mean(keyword, signature.parameters, f"It takes {', '.join(_argument_names(signature))}"),
                )
            if keyword in found:
                raise expression_error(f"{keyword} is given twice", self.text, node.start, "Keep one of them")
            found[keyword] = self.value(node)
        return found

    def require_few_layers(self, call: ConstructorCall, given: Mapping[str, Any]) -> None:
        for name, value in given.items():
            if "layers" in name and isinstance(value, int) and value > MOST_LAYERS:
                raise TooLarge(
                    f"{name} is {value:,}, and at most {MOST_LAYERS:,} are made",
                    where=f"at column {call.start + 1}",
                    fix="Ask for fewer",
                )

    def refusal(
        self, call: ConstructorCall, kind: type[nn.Module], given: inspect.BoundArguments, error: Exception
    ) -> PellucidError:
        """What the constructor said, with the nearest number that it takes where one must divide another."""
        said = one_line(first_line(error) or type(error).__name__).rstrip(".")
        for name in DIVIDING:
            wrong = given.arguments.get(name)
            if not isinstance(wrong, int):
                continue
            for near in sorted(range(1, 2 * abs(wrong) + 2), key=lambda one: (abs(one - wrong), one)):
                if _can_be(kind, given, name, near):
                    return self.error(f"{said}, and {name} is {wrong}", call, f"{name}={near} works")
        return self.error(
            said, call, f"nn.{kind.__name__} takes {', '.join(_argument_names(signature_of(kind))) or 'modules'}"
        )

    def error(self, what: str, call: ConstructorCall, fix: str) -> ExpressionError:
        return expression_error(what, self.text, call.start, fix)


def _can_be(kind: type[nn.Module], given: inspect.BoundArguments, name: str, value: int) -> bool:
    """Whether the constructor takes another number there."""
    arguments = {**given.arguments, name: value}
    other = inspect.BoundArguments(given.signature, arguments)
    try:
        kind(*other.args, **other.kwargs)
    except Exception:
        return False
    return True


def _argument_names(signature: inspect.Signature) -> list[str]:
    """The arguments that a person gives: neither the device nor the type of numbers."""
    names = [name for name in signature.parameters if name not in ("device", "dtype", "args", "kwargs", "_weight")]
    return names[:8]


def _nearest_letters(name: str, known: Mapping[str, object]) -> str:
    """The known name with the same letters, as Relu for ReLU."""
    return next((one for one in known if one.lower() == name.lower()), "")


def is_of_torch(module: nn.Module) -> bool:
    """Whether it is a class of torch.nn itself, so that its constructor is known."""
    return constructors().get(type(module).__name__) is type(module)


def spell_module(module: nn.Module) -> str:
    """The call that makes such a module; of classes that are not torch's only the name.

    >>> spell_module(nn.Conv2d(1, 8, 5, padding=2, bias=False)), spell_module(nn.LayerNorm(4))
    ('nn.Conv2d(1, 8, 5, padding=2, bias=False)', 'nn.LayerNorm(4)')
    """
    if not is_of_torch(module):
        return type(module).__name__
    words = []
    for name, parameter in signature_of(type(module)).parameters.items():
        if name in _NEVER_WRITTEN or not _is_known(module, name):
            continue
        value, usual = _argument(module, name), parameter.default
        if usual is inspect.Parameter.empty:
            words.append(_short(value))
        elif _short(value) != _short(usual) and not _follows(module, name, value):
            words.append(f"{name}={_short(value)}")
    return f"nn.{type(module).__name__}({', '.join(words)})"


def rebuild_module(module: nn.Module, **changes: Any) -> nn.Module:
    """A new module of the same kind, with other arguments where they are given; for kinds of torch.nn.

    >>> rebuild_module(nn.Linear(120, 10), in_features=144)
    Linear(in_features=144, out_features=10, bias=True)
    """
    arguments = {
        name: _argument(module, name)
        for name in signature_of(type(module)).parameters
        if name not in _NEVER_WRITTEN and _is_known(module, name)
    }
    made = type(module)(**{**arguments, **changes})
    first = next(module.parameters(), None)
    if first is not None:
        made.to(first.device, first.dtype)
    return made.train(module.training)


def _is_known(module: nn.Module, name: str) -> bool:
    return hasattr(module, name) or name in ("bias", "add_bias_kv")


def _argument(module: nn.Module, name: str) -> Any:
    """What the constructor was given under that name, as the module keeps it."""
    if name == "bias" and isinstance(module, nn.MultiheadAttention):
        return module.in_proj_bias is not None
    if name == "add_bias_kv":
        return getattr(module, "bias_k", None) is not None
    value = getattr(module, name, None)
    return value if name != "bias" or isinstance(value, bool) else value is not None


def _follows(module: nn.Module, name: str, value: Any) -> bool:
    """Whether a value is what it becomes when it is not given, as the stride of a pool is its window."""
    leaders = {"kdim": "embed_dim", "vdim": "embed_dim", "stride": "kernel_size", "bias": "affine"}
    leader = getattr(module, leaders.get(name, ""), None)
    is_of_conv = hasattr(module, "in_channels")
    return leader is not None and not is_of_conv and value == leader


def _short(value: Any) -> str:
    """The value as people write it: one number for several that are equal."""
    if isinstance(value, tuple) and value and all(one == value[0] for one in value):
        return repr(value[0])
    return repr(value)
