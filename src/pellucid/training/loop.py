"""The training loop, written out.

for each step:  forget the gradients · score the batch · take the loss · go back through the graph · clip ·
                make sure that everything is a number · update · yield what was seen

Everything else listens to the steps that come out of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from pellucid.errors import NotFinite
from pellucid.inspection.instrument.weight_growth import WeightSizes
from pellucid.models.contracts import SequenceModel
from pellucid.models.sequences.on_counting import ALONE, OnCounting
from pellucid.records import Plan, Step
from pellucid.training.engine import Engine
from pellucid.training.optimizers import Optimizer, planned_rate_factor
from pellucid.training.rng import seed_torch
from pellucid.training.sharding import held_here, whole_tensor
from pellucid.training.tasks.batches import IGNORED, Batch
from pellucid.training.tasks.task import Batches, LossFunction

Watch = Callable[[int], AbstractContextManager[None]]


def watch_nothing(step: int) -> AbstractContextManager[None]:
    """Nobody looks at this step from inside."""
    return nullcontext()


def next_token_loss(model: Any, batch: Batch) -> Tensor:
    """What is asked of a sequence model: the mean loss over all tokens of a batch."""
    real = places_of_tokens(model, batch)
    counted = batch.counted_in_place() if real is None else batch.counted
    given = (batch.tokens,) if counted is None else (batch.tokens, counted)
    if real is None:
        return mean_token_loss(model(*given), batch.targets)
    return mean_token_loss(model(*given, real=real), batch.targets.flatten()[real])


def loss_on_counting(model: OnCounting, batch: Batch) -> Tensor:
    """The same of a network that starts from counting; on the way back it also learns to predict on its own."""
    real = places_of_tokens(model, batch)
    parts = model.predict(batch.tokens, batch.counted_in_place() if real is None else batch.counted, real)
    targets = batch.targets.flatten() if real is None else batch.targets.flatten()[real]
    alone = mean_token_loss(parts.alone, targets)
    # Adds nothing to the loss that is told, and its slopes to the gradients.
    return mean_token_loss(parts.logits, targets) + ALONE * (alone - alone.detach())


def places_of_tokens(model: SequenceModel, batch: Batch) -> Tensor | None:
    """Where the tokens of a padded batch stand, (n,), for a network that then computes no padding; None: no need."""
    if not model.skips_padding or batch.n_tokens == batch.targets.numel():
        return None
    return (batch.targets.flatten() != IGNORED).nonzero().flatten()


def steps(
    model: nn.Module,
    batches: Batches,
    optimizer: Optimizer,
    plan: Plan,
    *,
    loss_function: LossFunction = next_token_loss,
    first: int = 1,
    watch: Watch = watch_nothing,
    engine: Engine | None = None,
) -> Iterator[Step]:
    """Train from step `first` to the last of the plan, and yield every step once it is done.

    watch: its context surrounds one whole step, forward, backward and update. engine: what makes the gradients; without
    one they are made here, by this process alone.
    """
    engine = engine or Engine(model, loss_function, plan)
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    parameters = list(trained.values())
    sizes = WeightSizes({name: held_here(parameter) for name, parameter in trained.items()})
    for step in range(first, plan.steps + 1):
        if not model.training:
            model.train()
        factor = planned_rate_factor(plan, step)
        watching = watch(step)
        with watching, engine.seeded(step):
            optimizer.zero_grad()
            loss, n_tokens = engine.gradients(batches, step, is_watched=not isinstance(watching, nullcontext))
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            norm = whole_tensor(get_total_norm(gradients))
            seen = Step(step, loss, n_tokens, plan.learning_rate * factor, norm.item())
            if not (math.isfinite(seen.loss) and math.isfinite(seen.gradient_norm)):
                raise not_finite_error(model, engine.again, seen, plan, sizes)
            if plan.clip:
                clip_grads_with_norm_(parameters, plan.clip, norm)
            optimizer.step(factor)
            sizes.note(step)
        yield seen


def mean_token_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """scores: (…, vocab), targets: (…) -> the mean loss over all targets that are not padding."""
    return functional.cross_entropy(scores.flatten(0, -2), targets.flatten(), ignore_index=IGNORED)


def not_finite_error(
    model: nn.Module, again: Callable[[], object], seen: Step, plan: Plan, sizes: WeightSizes
) -> NotFinite:
    """What to say when a loss or a gradient is no number: where it is seen, and which update of which weight led there.

    The batch goes through once more, to find the first layer that shows it.
    """
    used = None  # on the way back every weight was
    if math.isfinite(seen.loss):
        what, layer = f"a gradient became {seen.gradient_norm}", _first_bad_gradient(model)
    else:
        with seed_torch(plan.seed, seen.step, "dropout"), torch.no_grad():
            what, (layer, used) = f"loss became {seen.loss}", _first_bad_output(model, again)
    return NotFinite(
        what,
        step=seen.step,
        layer=layer,
        learning_rate=seen.learning_rate,
        highest=plan.learning_rate,
        cause=cause_words(sizes, used),
    )


def cause_words(sizes: WeightSizes, used: Collection[str] | None) -> str:
    """What the weights say of it: the update that made one of them too large, or that none has grown.

    used: the names of those that had a part in it; None is all.
    """
    growth = sizes.find_growth(used)
    if growth is not None:
        return growth.description
    name, largest = sizes.largest()
    return f"no weight has grown much, the largest number is {largest:.3g} in {name}"


def _first_bad_output(model: nn.Module, again: Callable[[], object]) -> tuple[str, set[str] | None]:
    """The path of the module that first put out something that is not finite, and the weights used up to there."""
    found: list[str] = []
    called: set[str] = set()

    def look_at(path: str) -> Callable[[nn.Module, object, object], None]:
        def look(module: nn.Module, came: object, out: object) -> None:
            if found:
                return
            called.add(path)
            if isinstance(out, Tensor) and out.is_floating_point() and not out.isfinite().all():
                found.append(path)

        return look

    hooks = [module.register_forward_hook(look_at(path)) for path, module in model.named_modules() if path]
    try:
        again()
    finally:
        for hook in hooks:
            hook.remove()
    if not found:
        return "the loss itself", None
    # Whatever holds it was running, and may have used weights of its own before.
    parts = found[0].split(".")
    called |= {".".join(parts[:n]) for n in range(len(parts))}
    return found[0], {name for name, _ in model.named_parameters() if name.rpartition(".")[0] in called}


def _first_bad_gradient(model: nn.Module) -> str:
    """The path of the last layer with a gradient that is not finite, which is where the way back came to first."""
    bad = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and not parameter.grad.isfinite().all()
    ]
    # All finite, and only the sum of their squares is not.
    return bad[-1].removesuffix(".weight").removesuffix(".bias") if bad else "all layers together"
