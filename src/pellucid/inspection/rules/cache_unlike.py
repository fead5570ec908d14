"""A cache saves work and must change nothing: read token by token, the scores are those of the whole sequence.

The usual mistakes are a position that starts again at 0, a mask that is too short, and keys that were turned twice.
They show only when it writes. Known ways to keep a cache are tried: `begin` and `advance`, or an argument of forward
that takes what came out before, as `past_key_values`.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import isolate
from pellucid.inspection.instrument.nests import main_tensor
from pellucid.inspection.instrument.perturbation import is_beyond_rounding, largest_change, size_of
from pellucid.inspection.instrument.specimen import run_module
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

NAMES = ("past_key_values", "past_key_value", "past", "cache", "kv_cache", "caches", "state", "hidden", "hx")
MOST_TOKENS = 12
MOST_ROWS = 4

Read = Callable[[Tensor], Tensor | None]  # tokens (batch, time) -> scores, read one by one


class Stepwise(NamedTuple):
    """A way in which a module reads token by token."""

    called: str
    read: Read
    again: str  # code that reads the last token on its own


def check(specimen: Specimen) -> Findings:
    tokens = specimen.tokens
    if tokens is None or specimen.is_causal is False or len(specimen.inputs) > 1 or tokens.shape[1] < 3:
        return
    tokens = tokens[:MOST_ROWS, :MOST_TOKENS]
    model = specimen.copy("eval").model
    way = _way(model)
    if way is None:
        return
    whole, part = run_module(model, (tokens,)), run_module(model, (tokens[:, :-1],))
    if whole is None or part is None or whole.dim() != 3 or whole.shape[:2] != tokens.shape:
        return
    if is_beyond_rounding(largest_change(whole[:, :-1], part), whole):
        return  # what comes later changes what came before, so there is nothing that could be kept
    with isolate(), torch.no_grad():
        stepped = way.read(tokens)
    if stepped is None or stepped.shape != whole.shape:
        return
    changes = [largest_change(whole[:, t], stepped[:, t]) for t in range(tokens.shape[1])]
    worst = max(changes)
    size = size_of(whole)
    if not is_beyond_rounding(worst / 10, whole):  # sums are made in another order, and add up over layers
        seen = f"{tokens.shape[1]} tokens read one by one with {way.called} give the same scores within {worst:.2g}"
        yield Finding.sound(way.called, seen, "the cache changes nothing")
        return
    first = next(t for t, change in enumerate(changes) if is_beyond_rounding(change / 10, whole))
    yield Finding.broken(
        way.called,
        f"read one by one with {way.called}, scores differ by up to {worst:.3g} from those of the whole sequence, "
        f"from token {first} on, scores being of size {size:.3g}",
        "what it writes with its cache is not what it learned to say",
        "look at positions, mask and order of the keys where past and new tokens are put together"
        if first
        else "look at what is kept before anything was read",
        again=way.again,
    )


def _way(model: nn.Module) -> Stepwise | None:
    begin, advance = getattr(model, "begin", None), getattr(model, "advance", None)
    if callable(begin) and callable(advance):
        return Stepwise(
            "advance",
            _by_advancing(begin, advance),
            "state = model.begin(len(x))\n"
            "for t in range(x.shape[1]): made, state = model.advance(x[:, t], state)\n"
            "print(model(x)[:, -1] - made)",
        )
    asked = inspect.signature(model.forward).parameters
    for name in NAMES:
        if name in asked and asked[name].default is None:
            flags = {flag: True for flag in ("use_cache", "return_cache") if flag in asked}
            asks = "".join(f", {flag}=True" for flag in flags)
            code = (
                "kept = None\n"
                "for t in range(x.shape[1]):\n"
                f"    out = model(x[:, t : t + 1], {name}=kept{asks})\n"
                f"    made, kept = (out[0], out[1]) if isinstance(out, tuple) else (out['logits'], out['{name}'])\n"
                "whole = model(x)\n"
                "whole = whole[0] if isinstance(whole, tuple) else getattr(whole, 'logits', whole)\n"
                "print(whole[:, -1] - made[:, -1])"
            )
            return Stepwise(name, _by_passing_on(model, name, flags), code)
    return None


def _by_advancing(begin: Callable[[int], Any], advance: Callable[[Tensor, Any], Any]) -> Read:
    def read_tokens(tokens: Tensor) -> Tensor | None:
        state, scores = begin(len(tokens)), []
        for t in range(tokens.shape[1]):
            made, state = advance(tokens[:, t], state)
            scores.append(made)
        return torch.stack(scores, dim=1)

    return read_tokens


def _by_passing_on(model: nn.Module, name: str, flags: dict[str, bool]) -> Read:
    def read_tokens(tokens: Tensor) -> Tensor | None:
        kept, scores = None, []
        for t in range(tokens.shape[1]):
            outputs = model(tokens[:, t : t + 1], **{name: kept}, **flags)
            made, kept = main_tensor(outputs), _cache_in(outputs, name)
            if made is None or kept is None:
                return None
            scores.append(made)
        return torch.cat(scores, dim=1)

    return read_tokens


def _cache_in(outputs: Any, name: str) -> Any:
    """What is to be given back: under the argument's name, or what stands second in a pair."""
    if isinstance(outputs, dict):
        return outputs.get(name)
    if isinstance(outputs, tuple) and len(outputs) == 2:
        return outputs[1]
    return None


RULE = DoctorRule(
    name="cache-unlike",
    proves="reading token by token with the cache gives other scores than reading the whole",
    how="reads the batch's tokens one by one with the module's own cache and compares with one pass over all of them",
    check=check,
    cannot_see="caches that are kept outside of the module's own calls",
)
