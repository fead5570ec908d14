"""How the gradients of a step are made: on which device, in which precision, compiled or not, by how many processes.

A batch that several processes share, or one that is worked on piece by piece (`accumulate`), gives the gradient of the
whole batch's mean loss: each piece counts by how many predictions it holds, so no mean of means is taken.
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch import distributed as dist

from pellucid.records import Plan
from pellucid.training.devices import autocast_for, place_for
from pellucid.training.distributed import ALONE, Share, World, share_batch_norms
from pellucid.training.rng import seed_torch
from pellucid.training.tasks.task import Batches, LossFunction, SharedBatches, batch_to

LOSS_SCALE = 1024.0  # of fp16, whose gradients would else become 0; fixed, so that a resumed run needs no state of it


class StepLoss(NamedTuple):
    """The mean loss of a step's whole batch, and of how many predictions."""

    loss: float
    n_tokens: int


class BatchLoss(nn.Module):
    """A network with its loss as one module, which a batch goes into and one number comes out of."""

    def __init__(self, model: nn.Module, loss_function: LossFunction) -> None:
        super().__init__()
        self.model = model
        self.loss_function = loss_function

    def forward(self, batch: Any) -> Tensor:
        return self.loss_function(self.model, batch)


def _with_shared_gradients(module: nn.Module) -> nn.Module:
    """The module with gradients that are averaged over processes on the way back. Buffers are the same anyway."""
    with warnings.catch_warnings():
        # torch 2.13 wants another word for it, which 2.6 does not know.
        warnings.simplefilter("ignore", FutureWarning)
        return nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True, broadcast_buffers=False)


def n_predictions(batch: Any) -> float:
    return float(batch.n_tokens)


def no_signal() -> int:
    return 0


class Engine:
    """Makes gradients of one network. weigh: what the mean loss of a batch is a mean over.

    asked_to_stop: the signal that asked this process to end, or 0. All processes are told with the loss, so that they
    end at the same step; `stop_signal` has it after each step.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_function: LossFunction,
        plan: Plan,
        world: World = ALONE,
        weigh: Callable[[Any], float] = n_predictions,
    ) -> None:
        self.model, self.loss_function, self.plan, self.world, self.weigh = model, loss_function, plan, world, weigh
        self.device = place_for(plan.device, world.local_rank)
        self.asked_to_stop: Callable[[], int] = no_signal
        self.stop_signal = 0
        self._last: list[Any] = []
        module: nn.Module = BatchLoss(model, loss_function)
        self.shared: nn.Module | None = None
        if world.is_shared:
            share_batch_norms(model)
            if not plan.shard:
                self.shared = module = _with_shared_gradients(module)
        self.plain: Callable[[Any], Tensor] = module
        self.fast: Callable[[Any], Tensor] = torch.compile(module, dynamic=True) if plan.is_compiled else module

    def seeded(self, step: int) -> AbstractContextManager[None]:
        """Inside, what is drawn for this step is drawn; processes that share a batch draw apart."""
        place = f" {self.world.rank} of {self.world.size}" if self.world.is_shared else ""
        return seed_torch(self.plan.seed, step, f"dropout{place}", self.device)

    def gradients(self, batches: Batches, step: int, *, is_watched: bool = False) -> StepLoss:
        """Leave the gradients of this step in the parameters. is_watched: by hooks, which compiled code has not."""
        forward = self.plain if is_watched else self.fast
        if not self.world.is_shared and self.plan.accumulate == 1:
            batch = batch_to(batches.batch(step), self.device)
            self._last = [batch]
            with autocast_for(self.plan.precision, self.device):
                loss = forward(batch)
            self._backward(loss)
            return StepLoss(loss.item(), batch.n_tokens)
        return self._gradients_of_parts(forward, cast(SharedBatches, batches), step)

    def _gradients_of_parts(self, forward: Callable[[Any], Tensor], batches: SharedBatches, step: int) -> StepLoss:
        n_parts = self.plan.accumulate
        shares = [self.world.share.within(Share(part, n_parts)) for part in range(n_parts)]
        parts = [batches.batch(step, share) for share in shares]
        counts = [batches.has_rows(step, share) for share in shares]
        weights = [self.weigh(part) if is_one else 0.0 for part, is_one in zip(parts, counts, strict=True)]
        n_tokens = sum(part.n_tokens for part, is_one in zip(parts, counts, strict=True) if is_one)
        totals = torch.tensor([sum(weights), n_tokens], dtype=torch.float64)
        waiting = dist.all_reduce(totals, async_op=True) if self.world.is_shared else None
        self._last = [batch_to(part, self.device) for part in parts]
        own = torch.zeros((), dtype=torch.float64, device=self.device)
        for place, (part, weight) in enumerate(zip(self._last, weights, strict=True)):
            with self._synchronised_by_last(is_last=place == n_parts - 1):
                with autocast_for(self.plan.precision, self.device):
                    loss = forward(part)
                if waiting is not None and place == 0:
                    waiting.wait()
                share = weight / max(float(totals[0]), 1e-300)
                # Gradients are averaged over processes, and what counts is their sum.
                self._backward(loss * (share * self.world.size))
                own += share * loss.detach().double()
        self._unshare_scale()
        asked = self.asked_to_stop()
        # How many were asked by Ctrl-C, and how many otherwise, on their way with the loss.
        told = [own.item(), float(asked == signal.SIGINT), float(asked not in (0, signal.SIGINT))]
        status = torch.tensor(told, dtype=torch.float64)
        if self.world.is_shared:
            dist.all_reduce(status)
        self.stop_signal = int(signal.SIGINT if status[1] else signal.SIGTERM if status[2] else 0)
        return StepLoss(float(status[0]), int(totals[1]))

    def _backward(self, loss: Tensor) -> None:
        scaled = loss * LOSS_SCALE if self.plan.precision == "fp16" else loss
        scaled.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        if self.plan.precision == "fp16" and not self.world.is_shared and self.plan.accumulate == 1:
            self._unshare_scale()

    def _unshare_scale(self) -> None:
        """Take the scale of fp16 out of the gradients again."""
        if self.plan.precision == "fp16":
            torch._foreach_mul_([one.grad for one in self.model.parameters() if one.grad is not None], 1 / LOSS_SCALE)

    @contextmanager
    def _synchronised_by_last(self, *, is_last: bool) -> Iterator[None]:
        """Gradients are exchanged once for a step: with the last of its pieces."""
        if is_last or not self.world.is_shared:
            with nullcontext():
                yield
        elif isinstance(self.shared, nn.parallel.DistributedDataParallel):
            with self.shared.no_sync():
                yield
        else:
            from pellucid.training.sharding import synchronise_gradients

            synchronise_gradients(self.model, is_on=False)
            try:
                yield
            finally:
                synchronise_gradients(self.model, is_on=True)

    def again(self) -> None:
        """The last batch through the network once more, for whoever looks for where it went wrong."""
        for part in self._last:
            self.loss_function(self.model, part)
