"""Units that begin with the same weights and get the same gradient stay the same for ever: a layer of them is one unit.

Weights that are filled with one number do that. Zeros in the last layer do not: each class gets a gradient of its own.
Units before it that begin as one, but for their biases, part slowly; and so do tokens that all have one embedding.
"""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.nests import main_tensor
from pellucid.inspection.instrument.recording import record
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEWEST = 3  # units: two may well be meant to begin alike
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
FIX = "draw the weights (reset_parameters, or nn.init.kaiming_normal_), do not fill them in"


def check(specimen: Specimen) -> Findings:
    copied = specimen.copy()
    if (seen := record(copied, with_loss=True)) is None:
        return
    last = _last_layers(copied)
    n_layers = 0
    for path, module in copied.model.named_modules():
        if not isinstance(module, (*LAYERS, nn.Embedding)) or len(module.weight) < 2 or not module.weight.requires_grad:
            continue
        own = [name for name in ("weight", "bias") if getattr(module, name, None) is not None]
        gradients = [seen.gradients.get(f"{path}.{name}".lstrip(".")) for name in own]
        is_taught = all(gradient is not None and bool(gradient.to_dense().any()) for gradient in gradients)
        n_layers += is_taught
        pairs = [(getattr(module, name), gradient) for name, gradient in zip(own, gradients, strict=True)]
        rows = _rows_that_learn(module)
        n, first = len(rows), rows.flatten()[0].item()
        is_layer = isinstance(module, LAYERS)
        if is_taught and is_layer and all(_is_one(one, 0.0) and _is_one(gradient, 1e-5) for one, gradient in pairs):
            yield Finding.suspicious(
                path or "the model",
                f"all {n} units have the same weights ({first:.3g} first) and get the same gradient",
                f"they stay the same for ever: {n} units do the work of one",
                FIX,
                again=_again(path),
            )
            return
        begins_as_one = n >= FEWEST and rows[0].numel() > 1 and _is_one(rows, 1e-6)
        who = "units" if is_layer else "tokens"
        seen_text = f"all {n} {who} begin with the same weights ({first:.3g} first)"
        if begins_as_one and bool(rows.any()) and path not in last:
            yield Finding.suspicious(
                path or "the model",
                f"{seen_text}, and only their {'biases' if is_layer else 'gradients'} differ",
                f"{n} {who} begin as one and part slowly: what they should tell apart is not told apart at first",
                FIX,
                again=_again(path),
            )
            return
        if begins_as_one:
            means = "they are told apart by what each is taught alone, from the first step on"
            yield Finding.note(
                path or "the model", seen_text, means, "nothing, where so on purpose", again=_again(path)
            )
    if n_layers:
        seen_text = f"in each of {n_layers} layers units differ in their weights or in what they are taught"
        yield Finding.sound("the model", seen_text, "units can become different")


def _rows_that_learn(module: nn.Module) -> Tensor:
    """The weights of each unit or token; without that of padding, which stays at zero."""
    weight: Tensor = module.weight  # type: ignore[assignment]  # of layers and embeddings alone
    if isinstance(module, nn.Embedding) and module.padding_idx is not None and len(weight) > 1:
        return torch.cat([weight[: module.padding_idx], weight[module.padding_idx + 1 :]])
    return weight


def _last_layers(specimen: Specimen) -> set[str]:
    """Layers whose own output is what the module puts out: each of their units is asked for something else."""
    kept: dict[str, list[Tensor]] = {}

    def note(path: str, out: object) -> None:
        if isinstance(out, Tensor):
            kept.setdefault(path, []).append(out)

    handles = [
        module.register_forward_hook(lambda _module, _given, out, at=path: note(at, out))
        for path, module in specimen.model.named_modules()
        if isinstance(module, LAYERS)
    ]

    def run() -> Tensor | None:
        with isolate(), torch.no_grad():
            return main_tensor(specimen.model(*own_inputs(specimen.inputs)))

    main = try_or_none(run)
    for handle in handles:
        handle.remove()
    if main is None:
        return set()
    numbers = main.flatten().sort().values
    return {
        path
        for path, outs in kept.items()
        if any(out.numel() == main.numel() and torch.equal(out.flatten().sort().values, numbers) for out in outs)
    }


def _is_one(rows: Tensor | None, slack: float) -> bool:
    """Whether all rows are the first one, up to a share of the largest number."""
    if rows is None:
        return False
    dense = rows.detach().to_dense()
    return (dense - dense[:1]).abs().max().item() <= slack * dense.abs().max().item()


def _again(path: str) -> str:
    return (
        f"layer = model.get_submodule({path!r}); loss(model(x), y).backward()\n"
        "print((layer.weight == layer.weight[:1]).all(), (layer.weight.grad - layer.weight.grad[:1]).abs().max())"
    )


RULE = DoctorRule(
    name="symmetry",
    proves="that all units of a layer, or all tokens of an embedding, begin as one, and whether they stay so",
    how="compares the weights of units, and the gradients that the loss gives them",
    check=check,
    cannot_see="units that are alike only in pairs, and layers that begin with zeros and are taught apart",
    again="print([(n, (p == p[:1]).all().item()) for n, p in model.named_parameters() if p.dim() > 1])",
    needs=("targets", "loss"),
)
