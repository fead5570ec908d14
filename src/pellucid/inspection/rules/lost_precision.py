"""Numbers that are wider than their type lose what they say: bytes wrap around, fractions are cut, steps grow coarse.

Sums and products of narrow whole numbers are made again in 64 bits while the model runs, and every change of type is
compared with what it was given. Then the outputs are compared with those of the same model in float64, and with those
of inputs whose fractions were cut.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pellucid.inspection.instrument.influence import all_outputs, repeatable_output
from pellucid.inspection.instrument.isolation import isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.nests import map_tensors
from pellucid.inspection.instrument.perturbation import largest_change, size_of
from pellucid.inspection.instrument.recording import InterceptFunctions, function_name
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

_NARROW = (torch.uint8, torch.int8, torch.int16, torch.int32)
_ARITHMETIC = frozenset({"add", "sub", "mul", "rsub", "neg", "pow", "matmul", "bmm", "cumsum", "cumprod", "lshift"})
_ARITHMETIC |= {f"{way}{name}" for name in ("add", "sub", "mul") for way in ("i", "r")}
_CASTS = frozenset({"to", "type", "float", "half", "bfloat16", "type_as"})
APART = {
    torch.float32: 0.1,
    torch.float16: 0.3,
    torch.bfloat16: 0.5,
}  # of their size, by which rounding may move outputs
MERGED = 0.02  # of whole numbers, that a change of type may round
COARSE = 1.0  # a step between neighbouring floats beyond which whole numbers are lost
FEWEST = 8
TURN = 256  # after which a byte begins again
CALMER = 4.0  # times, by which neighbours are nearer to one another where a wrapped image is turned back


class _Watch:
    """What was seen of narrow numbers while a model ran."""

    def __init__(self) -> None:
        self.n_operations = 0
        self.wrapped = ""
        self.merged = ""

    def see(self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        name = function_name(function)
        if name in _ARITHMETIC and any(isinstance(one, Tensor) and one.dtype in _NARROW for one in args):
            return self._arithmetic(name, function, args, named)
        made = function(*args, **named)
        if name in _CASTS and args and isinstance(args[0], Tensor) and isinstance(made, Tensor):
            self._cast(args[0], made)
        return made

    def _arithmetic(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        wide = map_tensors(_widen, args)  # before it runs: it may write on what it is given
        made = function(*args, **named)
        if not isinstance(made, Tensor) or made.dtype not in _NARROW:
            return made
        self.n_operations += 1
        exact = try_or_none(lambda: function(*wide, **named))
        if isinstance(exact, Tensor) and exact.shape == made.shape and not torch.equal(exact, made.long()):
            n_off = int((exact != made.long()).sum())
            at = int((exact != made.long()).flatten().nonzero()[0])
            self.wrapped = self.wrapped or (
                f"{name} of {str(made.dtype).removeprefix('torch.')} gave {int(made.flatten()[at])} where "
                f"{int(exact.flatten()[at])} is right, for {n_off} of {made.numel()} numbers"
            )
        return made

    def _cast(self, given: Tensor, made: Tensor) -> None:
        is_narrower = made.is_floating_point() and given.dtype is not made.dtype and given.dtype is not torch.bool
        if not is_narrower or given.numel() < FEWEST or not bool(given.isfinite().all()):
            return
        # Fractions are rounded by every type, and are meant to be; whole numbers count something, or name it.
        numbers, kept = given.detach().double(), made.detach().double()
        if given.is_floating_point() and not bool((numbers == numbers.round()).all()):
            return
        self.n_operations += 1
        n_off = int((numbers != kept).sum())
        if n_off > MERGED * given.numel():
            kinds = [str(one.dtype).removeprefix("torch.") for one in (given, made)]
            self.merged = self.merged or (
                f"{n_off} of {given.numel()} whole numbers of {kinds[0]}, up to {float(numbers.abs().max()):.6g}, are "
                f"off by up to {float((numbers - kept).abs().max()):g} in {kinds[1]}"
            )


def _widen(tensor: Tensor) -> Tensor:
    return tensor.long() if tensor.dtype in _NARROW else tensor.clone()


def check(specimen: Specimen) -> Findings:
    copied = specimen.copy("eval")
    watch = _Watch()
    outputs = try_or_none(partial(_run_watched, copied, watch))
    if outputs is None:
        return
    told: list[str] = []
    if (wrapped := _of_wrapped_bytes(specimen)) is not None:
        yield wrapped
        return
    for finding in (
        _of_watch(watch, told),
        _of_fractions(copied, told),
        _of_steps(specimen, told),
        _of_double(copied, told),
    ):
        if finding is not None:
            yield finding
            return
    if told:
        yield Finding.sound("the model", "; ".join(told), "numbers keep what they say")


def _run_watched(copied: Specimen, watch: _Watch) -> object:
    with isolate(), torch.no_grad(), InterceptFunctions(watch.see):
        return copied.model(*own_inputs(copied.inputs))


def _of_watch(watch: _Watch, told: list[str]) -> Finding | None:
    if watch.wrapped:
        return Finding.broken(
            "the model",
            watch.wrapped,
            "the type is too narrow for the result, and wraps around",
            "change the type before the arithmetic: x.float() or x.long() first",
            again="print(x.dtype, (model.eval()(x) - model(x.long())).abs().max())",
        )
    if watch.merged:
        return Finding.suspicious(
            "the model",
            watch.merged,
            "the type has too few digits for numbers of this size, and neighbours become the same one",
            "take off an offset, or take the remainder, in whole numbers or float64, and change the type then",
            again="print((x.float().double() - x.double()).abs().max())",
        )
    if watch.n_operations:
        told.append(f"{watch.n_operations} operations on narrow types and changes of type lost nothing")
    return None


def _of_fractions(copied: Specimen, told: list[str]) -> Finding | None:
    """Whether cutting the fractions of float inputs changes nothing, so that forward cuts them."""
    before = None if repeatable_output(copied) is None else all_outputs(copied)
    if before is None:
        return None
    for place, given in enumerate(copied.inputs):
        if not isinstance(given, Tensor) or not given.is_floating_point() or not bool((given != given.trunc()).any()):
            continue
        cut, nearly, beyond = (_with_fractions(copied, place, by) for by in (0.0, 0.9, 1.0))
        if cut is None or nearly is None or beyond is None or torch.equal(cut, beyond):
            continue  # whole numbers move nothing either, which is another matter
        if torch.equal(before, cut) and torch.equal(before, nearly):
            share = float((given != given.trunc()).float().mean())
            return Finding.suspicious(
                f"input {place}",
                f"{share:.0%} of its numbers have fractions, and with others, or none, outputs are the same",
                "forward makes whole numbers of them, and what is behind the point is lost",
                "scale or bin them on purpose before they become whole numbers, or read them as floats",
                again="print((model.eval()(x.trunc()) - model(x)).abs().max())",
            )
        told.append(f"fractions of input {place} move the outputs")
    return None


def _with_fractions(copied: Specimen, place: int, fraction: float) -> Tensor | None:
    """What is put out when all numbers of an input have this fraction, away from 0; None where it is not taken."""
    given: Tensor = copied.inputs[place]
    changed = given.trunc() + fraction * torch.where(given < 0, -1.0, 1.0).to(given)
    inputs = (*copied.inputs[:place], changed, *copied.inputs[place + 1 :])
    return try_or_none(partial(all_outputs, copied, inputs))


def _of_steps(specimen: Specimen, told: list[str]) -> Finding | None:
    """Whether inputs are so large that neighbouring floats are more than a whole number apart, and lie on that grid."""
    for place, given in enumerate(specimen.inputs):
        if not isinstance(given, Tensor) or given.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            continue
        columns = given.detach().double().reshape(-1, given.shape[-1] if given.dim() > 1 else 1)
        for column in range(min(columns.shape[1], 64)):
            numbers = columns[:, column]
            largest = float(numbers.abs().max()) if numbers.numel() >= FEWEST else 0.0
            if not largest or not bool(numbers.isfinite().all()):
                continue
            step = torch.finfo(given.dtype).eps * 2.0 ** int(torch.tensor(largest).log2().floor())
            apart = numbers.unique().diff()  # type: ignore[no-untyped-call]
            if step > COARSE and len(apart) and float(apart.min()) <= step:
                return Finding.suspicious(
                    f"input {place}",
                    f"column {column} holds numbers up to {largest:.6g} in {str(given.dtype).removeprefix('torch.')}, "
                    f"whose neighbours are {step:g} apart there, and the least difference between two is "
                    f"{float(apart.min()):g}",
                    f"differences below {step:g} were rounded away before the model read them",
                    "take off an offset, or take the remainder, in whole numbers or float64, and change the type then",
                    again=f"v = x[..., {column}].double().unique(); print(v.max(), v.diff().min())",
                )
    return None


def _of_double(copied: Specimen, told: list[str]) -> Finding | None:
    """Whether outputs differ from those of the same model in float64 by more than rounding should."""
    single, double = repeatable_output(copied), repeatable_output(copied.double())
    if _draws_at_random(copied):
        return None  # the same seed draws other numbers in float64
    if single is None or double is None or single.dtype not in APART or double.dtype is not torch.float64:
        return None
    apart = largest_change(single.double(), double) / max(size_of(double), 1e-12)
    kind = str(single.dtype).removeprefix("torch.")
    seen = f"outputs in {kind} are {apart:.2g} of their size apart from those in float64"
    if apart <= APART[single.dtype]:
        told.append(seen)
        return None
    return Finding.suspicious(
        "the model",
        seen,
        "digits are lost on the way: a small difference of large numbers, a long sum, or an exponential",
        "take means off before squares are made, add logarithms in place of products, or make this part in float64",
        again="print((copy.deepcopy(model).eval().double()(x.double()) - model.eval()(x)).abs().max())",
    )


def _of_wrapped_bytes(specimen: Specimen) -> Finding | None:
    """Whether inputs are bytes of which many lie at both ends and none between, and neighbours jump from end to end.

    A small number below 0 that is kept as a byte is a large one. Half a turn on, what belongs together lies together.
    """
    for place, given in enumerate(specimen.inputs):
        if not isinstance(given, Tensor) or given.dim() < 3 or given.dtype is torch.bool or given.shape[-1] < 3:
            continue
        numbers = given.detach().double()
        levels = numbers.unique()  # type: ignore[no-untyped-call]
        if not 2 * FEWEST <= len(levels) <= TURN or not bool(levels.isfinite().all()):
            continue
        step = float(levels.diff().min())
        counted = (numbers - levels[0]) / step
        is_counted = bool(((counted - counted.round()).abs() < 0.01).all())
        counted = counted.round()
        largest = float(counted.max())
        middle = (counted > TURN / 4) & (counted < 3 * TURN / 4)
        if not is_counted or not 0.9 * TURN < largest < TURN or bool(middle.any()):
            continue
        low = len(levels[levels < levels[0] + step * TURN / 2])
        turned = (counted + TURN / 2) % TURN
        jumps, calmer = (float(one.diff(dim=-1).abs().mean()) for one in (counted, turned))
        if min(low, len(levels) - low) >= FEWEST and calmer * CALMER < jumps:
            return Finding.suspicious(
                f"input {place}",
                f"its {len(levels)} levels lie at both ends of {TURN} and none in the middle half; neighbours differ "
                f"by {jumps:.3g} levels on average, and by {calmer:.3g} when all are read half a turn on",
                "bytes wrapped around before the model read them: what is a little below 0 became the largest numbers",
                "change the type before anything is taken off: x.float() - 128, not (x - 128).float()",
                again="print(x.unique())",
            )
    return None


def _draws_at_random(copied: Specimen) -> bool:
    with isolate(), torch.no_grad():
        before = torch.get_rng_state()
        copied.model(*own_inputs(copied.inputs))
        return not torch.equal(before, torch.get_rng_state())


RULE = DoctorRule(
    name="lost-precision",
    proves="that a type is too narrow for what is reckoned in it: it wraps around, merges numbers or loses digits",
    how="makes narrow arithmetic again in 64 bits, compares numbers before and after each change of type, cuts "
    "fractions of inputs, and compares outputs with those in float64",
    check=check,
    cannot_see="what was lost before the batch came, and parts that run in one type whatever they are given",
)
