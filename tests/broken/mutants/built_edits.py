"""Small edits of a program that is built: of its weights, modules, hooks, batch, loss, optimizer and step.

Each edit lists the places where it can be made; a place is a name and a function that makes it in a fresh specimen.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen

Change = Callable[[Specimen], Specimen]
BuiltEdit = Callable[[Specimen], Iterator[tuple[str, Change]]]
NORMS = (nn.LayerNorm, nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.RMSNorm)
ACTIVATIONS = (nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU, nn.Sigmoid, nn.Softplus)
WEIGHED = (nn.Linear, nn.Conv1d, nn.Conv2d)


def is_plain(specimen: Specimen) -> bool:
    """Whether it is trained by its loss and its optimizer, and by no step of its own."""
    return specimen.loss is not None and specimen.optimizer is not None and specimen.step is None


# Weights.


def freeze_weight(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(path: str, fresh: Specimen) -> Specimen:
        fresh.model.get_parameter(path).requires_grad_(False)
        return fresh

    for path in matrices(specimen.model):
        yield path, partial(change, path)


def zero_weights(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(path: str, fresh: Specimen) -> Specimen:
        with torch.no_grad():
            fresh.model.get_parameter(path).zero_()
        return fresh

    for path in matrices(specimen.model):
        yield path, partial(change, path)


def equal_units(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(path: str, fresh: Specimen) -> Specimen:
        with torch.no_grad():
            weight = fresh.model.get_parameter(path)
            weight.copy_(weight[:1].expand_as(weight).clone())
        return fresh

    for path in matrices(specimen.model):
        yield path, partial(change, path)


def scale_weights(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(path: str, fresh: Specimen) -> Specimen:
        with torch.no_grad():
            fresh.model.get_parameter(path).mul_(100)
        return fresh

    for path in matrices(specimen.model):
        yield f"{path} × 100", partial(change, path)


def negate_gradient(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(path: str, fresh: Specimen) -> Specimen:
        fresh.model.get_parameter(path).register_hook(lambda gradient: -gradient)
        return fresh

    for path in matrices(specimen.model):
        yield path, partial(change, path)


def drop_gradient(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(path: str, fresh: Specimen) -> Specimen:
        fresh.model.get_parameter(path).register_hook(torch.zeros_like)
        return fresh

    for path in matrices(specimen.model):
        yield path, partial(change, path)


# Modules and their hooks.


def hook_outputs(how: Callable[[Tensor], Tensor], least_dim: int = 2) -> BuiltEdit:
    def edit(specimen: Specimen) -> Iterator[tuple[str, Change]]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
            return how(output) if isinstance(output, Tensor) and output.dim() >= least_dim else output

        def change(path: str, fresh: Specimen) -> Specimen:
            fresh.model.get_submodule(path).register_forward_hook(hook)
            return fresh

        axes = axes_of_outputs(specimen)
        for path, module in specimen.model.named_modules():
            if isinstance(module, (*WEIGHED, *NORMS, nn.Embedding)) and axes.get(path, 0) >= least_dim:
                yield path, partial(change, path)

    return edit


def axes_of_outputs(specimen: Specimen) -> dict[str, int]:
    """How many axes what each module puts out has, where it is a tensor."""
    found: dict[str, int] = {}

    def note(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        found[path] = output.dim() if isinstance(output, Tensor) else 0

    handles = [one.register_forward_hook(partial(note, path)) for path, one in specimen.model.named_modules()]
    with warnings.catch_warnings(), fixed_rng(0), torch.no_grad():
        warnings.simplefilter("ignore")
        copy.deepcopy(specimen.model)(*copy.deepcopy(specimen.inputs))  # the hooks go along
    for handle in handles:
        handle.remove()
    return found


def raise_dropout(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(path: str, fresh: Specimen) -> Specimen:
        module = fresh.model.get_submodule(path)
        module.p = 1 - module.p
        return fresh

    for path, module in specimen.model.named_modules():
        if isinstance(module, nn.Dropout) and 0 < module.p < 0.5:
            yield path, partial(change, path)


def raise_epsilon(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(fresh: Specimen) -> Specimen:
        for module in fresh.model.modules():
            if isinstance(module, NORMS):
                module.eps = 1e5
        return fresh

    if any(isinstance(module, NORMS) for module in specimen.model.modules()):
        yield "1e5 in all norms", change


def stop_statistics(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(fresh: Specimen) -> Specimen:
        for module in fresh.model.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.momentum = 0.0
        return fresh

    if any(isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) for module in specimen.model.modules()):
        yield "momentum 0", change


def leave_part_in_eval(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(path: str, fresh: Specimen) -> Specimen:
        part = fresh.model.get_submodule(path)
        part.eval()
        part.train = lambda mode=True: part  # as those do who freeze a part's mode
        return fresh

    for path, module in specimen.model.named_modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.InstanceNorm2d):
            yield path, partial(change, path)


def never_leave_training(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(path: str, fresh: Specimen) -> Specimen:
        part = fresh.model.get_submodule(path)
        part.train()
        part.train = lambda mode=True: part
        return fresh

    for path, module in specimen.model.named_modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) or (isinstance(module, nn.Dropout) and module.p):
            yield path, partial(change, path)


def replace_module(made: Callable[[nn.Module], nn.Module], kinds: tuple[type[nn.Module], ...]) -> BuiltEdit:
    def edit(specimen: Specimen) -> Iterator[tuple[str, Change]]:
        def change(path: str, fresh: Specimen) -> Specimen:
            parent, _, name = path.rpartition(".")
            holder = fresh.model.get_submodule(parent)
            setattr(holder, name, made(getattr(holder, name)))
            return fresh

        for path, module in specimen.model.named_modules():
            if path and isinstance(module, kinds):
                yield path, partial(change, path)

    return edit


class Chopped(nn.Module):
    """An activation by its sign alone."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sign(x)


class Squashed(nn.Module):
    """A layer with a softmax behind it that is not wanted."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).softmax(-1)


# The batch.


def edit_batches(
    of_inputs: Callable[[Any], Any] | None, of_targets: Callable[[Any], Any] | None, words: str
) -> BuiltEdit:
    def edit(specimen: Specimen) -> Iterator[tuple[str, Change]]:
        def change(fresh: Specimen) -> Specimen:
            def pair(inputs: tuple[Any, ...], targets: Any) -> tuple[tuple[Any, ...], Any]:
                if of_inputs is not None:
                    inputs = (of_inputs(inputs[0]), *inputs[1:])
                return inputs, targets if of_targets is None else of_targets(targets)

            inputs, targets = pair(fresh.inputs, fresh.targets)
            return replace(fresh, inputs=inputs, targets=targets, more=tuple(pair(*one) for one in fresh.more))

        try:
            if is_plain(specimen) and isinstance(specimen.targets, Tensor) and isinstance(specimen.inputs[0], Tensor):
                change(specimen)
                yield words, change
        except (RuntimeError, IndexError, AssertionError):
            return

    return edit


def scale_inputs(inputs: Tensor) -> Tensor:
    assert inputs.is_floating_point()
    return inputs * 1000


def repeat_row(inputs: Tensor) -> Tensor:
    return inputs[:1].expand_as(inputs).clone()


def cut_fractions(inputs: Tensor) -> Tensor:
    assert inputs.is_floating_point()
    return inputs.long().to(inputs.dtype)


def roll_rows(targets: Tensor) -> Tensor:
    return targets.roll(1, 0)


def shift_time(targets: Tensor) -> Tensor:
    assert targets.dim() == 2
    assert not targets.is_floating_point()
    return targets.roll(1, 1)


def only_first_target(targets: Tensor) -> Tensor:
    return targets[:1].expand_as(targets).clone()


def turn_column(targets: Tensor) -> Tensor:
    """(N, 1) → (N): the loss compares all with all."""
    assert targets.dim() == 2
    assert targets.shape[1] == 1
    assert targets.is_floating_point()
    return targets[:, 0]


# The loss.


def edit_loss(how: Callable[[Any, Any, Any], Tensor], words: str) -> BuiltEdit:
    def edit(specimen: Specimen) -> Iterator[tuple[str, Change]]:
        def change(fresh: Specimen) -> Specimen:
            own = fresh.loss
            return replace(fresh, loss=lambda outputs, targets: how(own, outputs, targets))

        if is_plain(specimen):
            yield words, change

    return edit


def ask_first_row_alone(own: Any, outputs: Any, targets: Any) -> Tensor:
    return own(outputs[:1], targets[:1])


def ask_other_row(own: Any, outputs: Any, targets: Any) -> Tensor:
    return own(outputs.flip(0), targets)


# The optimizer.


def edit_groups(how: Callable[[dict[str, Any]], None], words: str, needs: str = "lr") -> BuiltEdit:
    def edit(specimen: Specimen) -> Iterator[tuple[str, Change]]:
        def change(fresh: Specimen) -> Specimen:
            assert fresh.optimizer is not None
            for group in fresh.optimizer.param_groups:
                how(group)
            return fresh

        if specimen.optimizer is not None and all(group.get(needs) for group in specimen.optimizer.param_groups):
            yield words, change

    return edit


def leave_out_of_optimizer(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    def change(path: str, fresh: Specimen) -> Specimen:
        assert fresh.optimizer is not None
        left_out = fresh.model.get_parameter(path)
        for group in fresh.optimizer.param_groups:
            group["params"] = [one for one in group["params"] if one is not left_out]
        return fresh

    if specimen.optimizer is not None:
        for path in matrices(specimen.model):
            yield path, partial(change, path)


def move_another_model(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    """The optimizer was made before the model was copied."""

    def change(fresh: Specimen) -> Specimen:
        return replace(fresh, model=copy.deepcopy(fresh.model))

    if is_plain(specimen):
        yield "the optimizer moves a copy", change


# The step: the usual one, with one mistake in it.


def own_step(how: str) -> BuiltEdit:
    def edit(specimen: Specimen) -> Iterator[tuple[str, Change]]:
        def change(fresh: Specimen) -> Specimen:
            model, optimizer, loss_of = fresh.model, fresh.optimizer, fresh.loss
            batches = [(fresh.inputs, fresh.targets), *fresh.more]
            count = 0

            def step() -> float:
                nonlocal count
                inputs, targets = batches[count % len(batches)]
                count += 1
                if how != "zero_grad left out":
                    optimizer.zero_grad()
                outputs = model(*inputs)
                loss = loss_of(outputs, targets)
                loss.backward()
                if how == "zero_grad after backward":
                    optimizer.zero_grad()
                if how == "gradients clipped to next to nothing":
                    for group in optimizer.param_groups:
                        group["params"] and nn.utils.clip_grad_norm_(group["params"], 1e-9)
                if how == "climbs":
                    for one in model.parameters():
                        if one.grad is not None:
                            one.grad.neg_()
                if how != "optimizer.step left out":
                    optimizer.step()
                return loss.item()

            return replace(fresh, loss=None, step=step)

        if is_plain(specimen):
            yield how, change

    return edit


def matrices(model: nn.Module) -> list[str]:
    """The paths of parameters with at least two axes."""
    return [path for path, one in model.named_parameters() if one.dim() >= 2 and one.requires_grad]


def _rate(factor: float) -> Callable[[dict[str, Any]], None]:
    return lambda group: group.update(lr=group["lr"] * factor)


BUILT_EDITS: dict[str, BuiltEdit] = {
    "weight frozen": freeze_weight,
    "weights zero": zero_weights,
    "units equal": equal_units,
    "weights too large": scale_weights,
    "gradient negated by a hook": negate_gradient,
    "gradient zeroed by a hook": drop_gradient,
    "hook that detaches": hook_outputs(lambda x: x.detach()),
    "hook that mixes rows": hook_outputs(lambda x: x - x.mean(0, keepdim=True)),
    "hook that shows the future": hook_outputs(lambda x: x + x.roll(-1, 1), 3),
    "hook that adds noise": hook_outputs(lambda x: x + torch.randn_like(x)),
    "hook that turns positions round": hook_outputs(lambda x: x.flip(1), 3),
    "hook that keeps one position": hook_outputs(lambda x: x[:, :1].expand_as(x), 3),
    "dropout 1 − p": raise_dropout,
    "norm epsilon": raise_epsilon,
    "statistics that never move": stop_statistics,
    "norm left in eval": leave_part_in_eval,
    "part never in eval": never_leave_training,
    "activation by its sign": replace_module(lambda _: Chopped(), ACTIVATIONS),
    "softmax behind a layer": replace_module(Squashed, (nn.Linear,)),
    "inputs × 1000": edit_batches(scale_inputs, None, "not normalised"),
    "inputs all one row": edit_batches(repeat_row, None, "the first row everywhere"),
    "inputs cut to integers": edit_batches(cut_fractions, None, "fractions lost"),
    "targets rolled": edit_batches(None, roll_rows, "by one row"),
    "targets shifted in time": edit_batches(None, shift_time, "by one step"),
    "targets all one": edit_batches(None, only_first_target, "the first target everywhere"),
    "targets (N) for (N, 1)": edit_batches(None, turn_column, "without their column"),
    "loss negated": edit_loss(lambda own, outputs, targets: -own(outputs, targets), "−loss"),
    "loss asks the first row alone": edit_loss(ask_first_row_alone, "outputs[:1], targets[:1]"),
    "loss of rows turned round": edit_loss(ask_other_row, "outputs.flip(0)"),
    "rate × 1000": edit_groups(_rate(1e3), "lr × 1000"),
    "rate ÷ 10⁴": edit_groups(_rate(1e-4), "lr ÷ 10,000"),
    "weight decay": edit_groups(lambda group: group.update(weight_decay=30.0), "weight_decay 30"),
    "left out of the optimizer": leave_out_of_optimizer,
    "another model in the optimizer": move_another_model,
    "step: zero_grad left out": own_step("zero_grad left out"),
    "step: zero_grad after backward": own_step("zero_grad after backward"),
    "step: optimizer.step left out": own_step("optimizer.step left out"),
    "step: climbs": own_step("climbs"),
    "step: clipped to nothing": own_step("gradients clipped to next to nothing"),
}

# Edits that change nothing: the control group.


def hook_nothing(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    yield from hook_outputs(lambda x: x + 0.0)(specimen)


def order_units(specimen: Specimen) -> Iterator[tuple[str, Change]]:
    """Weights written again with their own numbers, under the same names."""

    def change(fresh: Specimen) -> Specimen:
        fresh.model.load_state_dict({key: one.clone() for key, one in fresh.model.state_dict().items()})
        return fresh

    yield "state_dict loaded again", change


HARMLESS_EDITS: dict[str, BuiltEdit] = {
    "harmless: hook that adds 0": hook_nothing,
    "harmless: loaded again": order_units,
    "harmless: loss in a function": edit_loss(lambda own, outputs, targets: own(outputs, targets), "a wrapper"),
    "harmless: targets cloned": edit_batches(None, lambda targets: targets.clone(), "other memory"),
    "harmless: inputs with other strides": edit_batches(
        lambda inputs: inputs.transpose(0, -1).contiguous().transpose(0, -1), None, "last axis first in memory"
    ),
    "harmless: layer in a Sequential": replace_module(lambda layer: nn.Sequential(layer, nn.Identity()), ACTIVATIONS),
    "harmless: rate a tenth higher": edit_groups(_rate(1.1), "lr × 1.1"),
    "harmless: the usual step": own_step("nothing is wrong with it"),
}
