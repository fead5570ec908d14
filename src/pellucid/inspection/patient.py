"""A patient: someone's module with a batch, and as far as they are known the loss and the optimizer.

Probes work on copies (`copied`), so that the module itself is never trained, never moved and never hooked.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

Loss = Callable[[Any, Tensor], Tensor]  # what the module put out, and the targets -> one number


@dataclass(frozen=True)
class Patient:
    """What the doctor is shown.

    >>> patient = Patient(nn.Linear(2, 3), (torch.ones(4, 2),))
    >>> patient.outputs().shape
    torch.Size([4, 3])
    """

    model: nn.Module
    inputs: tuple[Any, ...]  # what forward is called with; the first dimension of its tensors is the batch
    targets: Tensor | None = None
    loss: Loss | None = None
    optimizer: torch.optim.Optimizer | None = None
    more: tuple[tuple[tuple[Any, ...], Tensor | None], ...] = ()  # further batches: inputs and targets
    is_causal: bool | None = None  # whether it must not see ahead; None: it is not said
    name: str = "the model"

    def outputs(self) -> Any:
        """What the module puts out for the batch, as it is."""
        return self.model(*self.inputs)

    def loss_of(self, outputs: Any) -> Tensor:
        """The loss of outputs for this batch; for those who know that there is one."""
        assert self.loss is not None, "this patient has no loss"
        assert self.targets is not None, "this patient has no targets"
        return self.loss(outputs, self.targets)

    def copied(self) -> Patient:
        """The same with a module of its own, without hooks and without the optimizer, whose parameters are others'."""
        return replace(self, model=without_hooks(copy.deepcopy(self.model)), optimizer=None)

    @property
    def n_rows(self) -> int:
        """Rows of the batch; 0 where no input is a tensor."""
        tensors = [one for one in self.inputs if isinstance(one, Tensor) and one.dim()]
        return len(tensors[0]) if tensors else 0

    @property
    def tokens(self) -> Tensor | None:
        """The first input that holds whole numbers, (batch, time); None where there is none."""
        return next((one for one in self.inputs if _is_whole(one) and one.dim() == 2), None)


def _is_whole(value: object) -> bool:
    return isinstance(value, Tensor) and not value.is_floating_point() and value.dtype is not torch.bool


def without_hooks(model: nn.Module) -> nn.Module:
    """The module with every hook of it and its parts taken off; for copies alone."""
    for module in model.modules():
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            getattr(module, name).clear()
    return model


@contextmanager
def unchanged_randomness(seed: int = 0) -> Iterator[None]:
    """Inside, torch draws from this seed; afterwards it goes on as if nothing had been."""
    has_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = list(range(torch.cuda.device_count())) if has_gpu else []
    with torch.random.fork_rng(devices=devices):
        if devices:
            torch.manual_seed(seed)
        else:  # without a GPU the same, and without a note of who called, which takes longer than a small forward
            torch.default_generator.manual_seed(seed)
        yield


def tensor_of(outputs: Any) -> Tensor | None:
    """The main tensor of what a module puts out: itself, the first of a tuple, or `logits` of a record or dictionary.

    >>> tensor_of({"logits": torch.zeros(2), "past": None}).shape
    torch.Size([2])
    """
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, dict):
        named = [outputs[key] for key in ("logits", "scores", "output", "last_hidden_state") if key in outputs]
        return tensor_of((named or list(outputs.values()))[0]) if outputs else None
    if isinstance(outputs, tuple | list):
        return tensor_of(outputs[0]) if outputs else None
    return None
