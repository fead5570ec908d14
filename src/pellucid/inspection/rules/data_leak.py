"""An input that is the target under another name makes every score worthless: tomorrow it will not be there.

Each column of the inputs is compared with the target by correlation. One that follows it to the last digit, over many
rows and up to scale and shift, was made of it.
"""

import torch
from torch import Tensor

from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEWEST_ROWS = 12
MOST_CLASSES = 100
ALIKE = 1 - 1e-5  # a correlation that no measurement reaches


def check(specimen: Specimen) -> Findings:
    targets = specimen.target
    if targets is None or targets.dtype is torch.bool or targets.numel() != len(targets.reshape(-1, 1)):
        return
    for place, given in enumerate(specimen.inputs):
        if not _is_table(given, targets):
            continue
        alike = torch.stack([_correlations(given.detach().double(), one) for one in _sides(targets)]).amax(0)
        best = int(alike.argmax())
        near = f"has a correlation of {float(alike[best]):.6f} with the target"
        seen = f"column {best} of {given.shape[1]} {near}, of {len(given)} rows"
        if float(alike[best]) > ALIKE and given.shape[1] > 1:
            yield Finding.suspicious(
                f"input {place}, column {best}",
                seen,
                "this column is the target, scaled and shifted: the answer stands among the questions",
                "take it out of the inputs, and look where it was made",
                again=f"print(torch.corrcoef(torch.stack([x[:, {best}], y.flatten().to(x)])))",
            )
        elif float(alike[best]) <= ALIKE:
            yield Finding.sound("inputs", seen, "no column is the target itself")


def _sides(targets: Tensor) -> list[Tensor]:
    """The target as numbers and, of classes, whether it is each of them."""
    flat = targets.detach().reshape(-1)
    classes = [] if flat.is_floating_point() else sorted(set(flat.tolist()))
    return [flat.double(), *((flat == one).double() for one in classes[:MOST_CLASSES])]


def _is_table(given: object, targets: Tensor) -> bool:
    """Whether it is rows of numbers with one target each, and enough of them."""
    return (
        isinstance(given, Tensor)
        and given.dim() == 2
        and given.is_floating_point()
        and given.shape[1] > 0
        and len(given) == targets.numel() >= FEWEST_ROWS
        and bool(given.isfinite().all())
        and bool((targets != targets.reshape(-1)[0]).any())
    )


def _correlations(rows: Tensor, target: Tensor) -> Tensor:
    """Of each column with the target, without its sign; 0 for a column that is constant."""
    columns, centred = rows - rows.mean(0), target - target.mean()
    lengths = columns.norm(dim=0) * centred.norm()
    return torch.where(lengths > 0, (columns * centred[:, None]).sum(0).abs() / lengths.clamp(min=1e-300), 0.0)


RULE = DoctorRule(
    name="data-leak",
    proves="a column of the inputs is the target, up to scale and shift",
    how="correlates each column of the inputs with the target over the rows of the batch",
    check=check,
    cannot_see="targets that are hidden in several columns together, or by more than scale and shift",
    needs=("targets",),
)
