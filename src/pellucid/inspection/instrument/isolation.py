"""Looks at someone's module without leaving a trace: fixed random numbers, a borrowed copy, and a snapshot to compare.

Probes work on copies. That they did is not believed but compared, bit by bit, and what differs is put back.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pellucid.errors import PellucidError
from pellucid.inspection.instrument.nests import map_tensors, tensors_in

if TYPE_CHECKING:
    from pellucid.inspection.instrument.specimen import Specimen

T = TypeVar("T")

MOST_COPIED_MODULES = 10_000  # copying one takes 0.1 ms, longer than its call
MOST_COPIED_BYTES = 1 << 30
MANY_PARAMETERS = 2_000_000  # from there on several threads are worth their meetings
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@contextmanager
def fixed_rng(seed: int = 0) -> Iterator[None]:
    """Inside, torch, numpy and Python draw from this seed; afterwards they go on as if nothing had been.

    >>> with fixed_rng(3):
    ...     first = torch.rand(2), random.random()
    >>> with fixed_rng(3):
    ...     second = torch.rand(2), random.random()
    >>> torch.equal(first[0], second[0]), first[1] == second[1]
    (True, True)
    """
    has_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = list(range(torch.cuda.device_count())) if has_gpu else []
    python, numbers = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        with torch.random.fork_rng(devices=devices):
            if devices:
                torch.manual_seed(seed)
            else:  # without a GPU the same, and without a note of who called, which takes longer than a small forward
                torch.default_generator.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)


@contextmanager
def isolate(seed: int = 0) -> Iterator[None]:
    """Inside, random numbers come from this seed, gradients are on and warnings silent; then all is as before."""
    with fixed_rng(seed), torch.inference_mode(False), torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def few_threads(model: nn.Module) -> Iterator[None]:
    """One thread for a small model: hundreds of its tiny steps would mostly wait for threads to meet.

    Measured on a busy machine with two cores: 450 steps of 400 parameters took 25 s in two threads, 1.5 s in one.
    """
    before = torch.get_num_threads()
    if sum(parameter.numel() for parameter in model.parameters()) < MANY_PARAMETERS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def try_or_none(run: Callable[[], T]) -> T | None:
    """What someone's code gives; None where it raises, for a probe may ask a module for what it was not made for.

    >>> try_or_none(lambda: nn.Linear(2, 3)(torch.ones(5))) is None
    True
    """
    try:
        return run()
    except Exception:
        return None


def first_line(error: BaseException | None) -> str:
    """The first line of what an error says; "" where it says nothing.

    >>> first_line(ValueError("no\\nmore"))
    'no'
    """
    return next(iter(str(error).strip().splitlines()), "")


@contextmanager
def without_fused_attention() -> Iterator[None]:
    """Inside, torch's transformers call their parts, which they pass over where one kernel can do all of it."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def own_inputs(value: Any) -> Any:
    """The same inputs with tensors of their own, so that what a module does to them in place is not done to ours.

    >>> mine = torch.ones(2)
    >>> own_inputs({"x": [mine]})["x"][0] is mine
    False
    """
    return map_tensors(lambda one: one.detach().clone(), value)


@contextmanager
def borrow_module(model: nn.Module) -> Iterator[nn.Module]:
    """Inside, a module that computes what `model` does, and may be hooked, run and moved; `model` stays what it was.

    A copy is the surest: whatever a forward writes (statistics of a batch norm, a counter, a cache) is written on it.
    Some modules cannot be copied, and very many or very large ones should not be: those are lent themselves and put
    back after. The weights may be the user's own: whoever trains takes a copy.

    >>> model = nn.BatchNorm1d(2)
    >>> with borrow_module(model) as ours:
    ...     _ = ours(torch.randn(3, 2))
    >>> model.num_batches_tracked
    tensor(0)
    """
    require_seeable(model)
    ours = _copy_unless_large(model)
    # A forward may also draw from Python's random numbers or numpy's; torch's are the business of those who run it.
    before = rng_state()
    try:
        if ours is not None:
            yield ours
        else:
            with _put_back(model):
                yield model
    finally:
        set_rng_state((*before[:2], torch.get_rng_state()))


@contextmanager
def _put_back(model: nn.Module) -> Iterator[None]:
    """Afterwards the module itself is as it was: what a forward writes on, and its modes."""
    kept = [(one, one._version, one.detach().clone()) for one in _written_by_forward(model)]
    modes = [(module, module.training) for module in nn.Module.modules(model)]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for one, version, before in kept:
                if one._version != version:
                    one.copy_(before)


def unwrap_compiled(model: nn.Module) -> nn.Module:
    """The module that `torch.compile` was given, where one was; its parts are the same, and can be seen."""
    if type(model).__name__ != "OptimizedModule":
        return model
    return model._modules["_orig_mod"] or model


def require_seeable(model: nn.Module) -> None:
    """Refuse a module whose parts cannot be seen, or that does not know its own shapes yet."""
    for path, module in nn.Module.named_modules(model):
        if isinstance(module, torch.jit.ScriptModule):
            raise PellucidError(
                f"{type(module).__name__} {path or 'itself'} is TorchScript, which hides its parts",
                fix="Give the module it was made from",
            )
    require_initialized(model)


def require_initialized(model: nn.Module) -> None:
    """Refuse a module whose parameters wait for their first input; until then there is nothing to look at."""
    for path, module in nn.Module.named_modules(model):
        tensors = {**module._parameters, **module._buffers}
        if any(is_lazy(one) for one in tensors.values() if one is not None):
            raise PellucidError(
                f"{type(module).__name__} {path or 'itself'} is lazy and needs an input shape",
                fix="Call the model once with a batch, so that its parameters get their shapes",
            )


def is_small(model: nn.Module) -> bool:
    """Whether copies of it cost little."""
    n_bytes = sum(one.numel() * one.element_size() for one in nn.Module.parameters(model) if not one.is_meta)
    return n_bytes <= MOST_COPIED_BYTES and sum(1 for _ in nn.Module.modules(model)) <= MOST_COPIED_MODULES


def _copy_unless_large(model: nn.Module) -> nn.Module | None:
    """A copy; None where it would be large, or cannot be made."""
    if not is_small(model):
        return None
    try:
        ours = copy.deepcopy(model)
    except Exception:  # a lock, a generator, a tensor with a history, a __getattr__ that answers to every name
        return None
    return ours if isinstance(ours, type(model)) else None


def _written_by_forward(model: nn.Module) -> list[Tensor]:
    """The buffers, and the weights of lookups with a largest norm, which shorten what they look up."""
    lookups = [one for one in nn.Module.modules(model) if isinstance(one, nn.Embedding | nn.EmbeddingBag)]
    written = chain(nn.Module.buffers(model), (one.weight for one in lookups if one.max_norm is not None))
    return list({id(one): one for one in written}.values())


class Snapshot:
    """A specimen as it was when this was made.

    >>> from pellucid.inspection.instrument.specimen import Specimen
    >>> specimen = Specimen(torch.nn.Linear(2, 3), (torch.ones(4, 2),))
    >>> state = Snapshot(specimen)
    >>> _ = specimen.model.eval()
    >>> state.restore()
    ['the mode of the model']
    >>> state.restore(), specimen.model.training
    ([], True)
    """

    def __init__(self, specimen: Specimen) -> None:
        self.specimen = specimen
        self._tensors = {name: (tensor, tensor.detach().clone()) for name, tensor in _tensors(specimen)}
        self._gradients = {
            path: (parameter, parameter.grad, None if parameter.grad is None else parameter.grad.clone())
            for path, parameter in specimen.model.named_parameters()
        }
        parameters, modules = specimen.model.named_parameters(), specimen.model.named_modules()
        self._switches: list[tuple[str, Tensor | nn.Module, str, bool]] = [
            *((f"whether {path} learns", one, "requires_grad", one.requires_grad) for path, one in parameters),
            *((f"the mode of {path or 'the model'}", one, "training", one.training) for path, one in modules),
        ]
        self._hooks = [
            (path, getattr(module, kind), dict(getattr(module, kind)))
            for path, module in specimen.model.named_modules()
            for kind in HOOKS
        ]
        self._optimizer = copy.deepcopy(specimen.optimizer.state_dict()) if specimen.optimizer is not None else None
        self._rng = rng_state()

    def restore(self) -> list[str]:
        """Everything put back; the names of what differed, which should be none."""
        return [*self._put_numbers_back(), *self._put_switches_back(), *self._put_others_back()]

    def _put_numbers_back(self) -> Iterator[str]:
        for name, (tensor, before) in self._tensors.items():
            if not is_same(tensor, before):
                with torch.no_grad():
                    tensor.copy_(before)
                yield name
        for path, (parameter, gradient, bits) in self._gradients.items():
            if parameter.grad is not gradient or (bits is not None and not is_same(gradient, bits)):
                parameter.grad = gradient if bits is None or gradient is None else gradient.copy_(bits)
                yield f"the gradient of {path}"

    def _put_switches_back(self) -> Iterator[str]:
        for name, owner, switch, before in self._switches:
            if getattr(owner, switch) != before:
                setattr(owner, switch, before)
                yield name
        for path, hooks, held in self._hooks:
            if dict(hooks) != held:
                hooks.clear()
                hooks.update(held)
                yield f"the hooks of {path or 'the model'}"

    def _put_others_back(self) -> Iterator[str]:
        optimizer = self.specimen.optimizer
        if (
            optimizer is not None
            and self._optimizer is not None
            and not _alike(optimizer.state_dict(), self._optimizer)
        ):
            optimizer.load_state_dict(self._optimizer)
            yield "the optimizer"
        if not _alike(rng_state(), self._rng):
            set_rng_state(self._rng)
            yield "random numbers"


def rng_state() -> tuple[Any, ...]:
    """Where the random numbers of Python, numpy and torch stand."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def set_rng_state(state: tuple[Any, ...]) -> None:
    """Random numbers go on from there."""
    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(state[2])


def is_same(one: object, other: object) -> bool:
    """Whether two tensors have the same bits; what is no number equals itself here.

    >>> is_same(torch.tensor(float("nan")), torch.tensor(float("nan")))
    True
    """
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or torch.equal(bytes_of(one), bytes_of(other))


def bytes_of(tensor: Tensor) -> Tensor:
    """The numbers of a tensor as the bytes that they are, in one row."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _tensors(specimen: Specimen) -> Iterator[tuple[str, Tensor]]:
    """Each weight, buffer and tensor of the batches, with its name."""
    yield from specimen.model.named_parameters()
    yield from specimen.model.named_buffers()
    for number, (inputs, targets) in enumerate([(specimen.inputs, specimen.targets), *specimen.more]):
        for place, one in enumerate(tensors_in((inputs, targets))):
            yield f"tensor {place} of batch {number}", one


def _alike(one: Any, other: Any) -> bool:
    """Whether two nests of dictionaries, lists and tensors hold the same."""
    if isinstance(one, Tensor):
        return is_same(one, other)
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other)
