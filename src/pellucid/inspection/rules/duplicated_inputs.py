"""Rows that are equal count twice; in two batches that should have nothing in common, they tell the answer.

Inputs that are all the same come from a loader that reads one file again and again, or from whole numbers divided
away. Of short token sequences some are equal by nature, so only real numbers are held against the batches.
"""

from collections import Counter
from typing import Any

from torch import Tensor

from pellucid.inspection.instrument.isolation import bytes_of
from pellucid.inspection.instrument.perturbation import batch_input
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEWEST_NUMBERS = 4  # in a row, below which rows may well be equal


def check(specimen: Specimen) -> Findings:
    place = batch_input(specimen)
    if place is None or specimen.inputs[place].dim() < 2 or len(specimen.inputs[place]) < 2:
        return
    given: Tensor = specimen.inputs[place]
    rows = _rows(specimen.inputs)
    found = [*_equal_rows(specimen, given, rows), *_shared_rows(specimen, given, rows)]
    yield from found
    if not found:
        several = f" and of {len(specimen.more)} further batches" if specimen.more else ""
        seen = f"all {len(rows)} rows of the batch{several} differ from each other"
        yield Finding.sound("inputs", seen, "no row counts twice")


def _rows(inputs: tuple[Any, ...]) -> list[bytes]:
    """The bits of each row, over all inputs that have as many rows as the first."""
    tensors = [one.detach() for one in inputs if isinstance(one, Tensor) and one.dim()]
    tensors = [one for one in tensors if len(one) == len(tensors[0])]
    if not tensors:
        return []
    return [b"".join(bytes_of(one[row]).numpy().tobytes() for one in tensors) for row in range(len(tensors[0]))]


def _equal_rows(specimen: Specimen, given: Tensor, rows: list[bytes]) -> Findings:
    counts = Counter(rows)
    if len(counts) == len(rows):
        return
    again = "print(x.unique(dim=0).shape, x.shape)"
    if len(counts) == 1:
        yield Finding.suspicious(
            "inputs",
            f"all {len(rows)} rows are the same, with numbers from {given.min().item():.3g} to "
            f"{given.max().item():.3g}",
            "the model is shown one example, whatever its labels say",
            "look at how a batch is put together, and whether whole numbers were divided away",
            again=again,
        )
        return
    n_double = sum(number for number in counts.values() if number > 1)
    conflicts = several_answers(specimen)
    is_odd = _is_telling(given) and n_double > len(rows) / 2
    yield Finding(
        "suspicious" if is_odd or (conflicts and _is_telling(given)) else "note",
        "inputs",
        f"{n_double} of {len(rows)} rows are equal to another, and {len(counts)} are different"
        + (f"; {conflicts} inputs have more than one target" if conflicts else ""),
        "no model can answer the same input in two ways" if conflicts else "what is repeated counts several times",
        "look where the rows were joined or sampled" if conflicts else "drop what is repeated, unless it is meant",
        again=again,
    )


def several_answers(specimen: Specimen) -> int:
    """How many inputs come more than once, with different targets."""
    targets, rows = specimen.target, _rows(specimen.inputs)
    if targets is None or not targets.dim() or len(targets) != len(rows):
        return 0
    answers: dict[bytes, set[bytes]] = {}
    for row, target in zip(rows, targets, strict=True):
        answers.setdefault(row, set()).add(bytes_of(target).numpy().tobytes())
    return sum(len(several) > 1 for several in answers.values())


def _is_telling(given: Tensor) -> bool:
    """Whether two equal rows of it can hardly be chance."""
    return given.is_floating_point() and given[0].numel() >= FEWEST_NUMBERS


def _shared_rows(specimen: Specimen, given: Tensor, rows: list[bytes]) -> Findings:
    known = set(rows)
    others = [
        _rows(inputs) for inputs, _ in specimen.more if inputs and isinstance(inputs[0], Tensor) and inputs[0].dim()
    ]
    shared = sum(row in known for batch in others for row in batch)
    if shared:
        yield Finding(
            "suspicious" if _is_telling(given) else "note",
            "inputs",
            f"{shared} of {sum(map(len, others))} rows of {len(others)} further batches are also in the first",
            "if one batch is trained on and another tested, these answers were seen before",
            "split by what is different, after dropping what is repeated: pellucid split does",
            again="print((x[:, None] == x_other[None]).flatten(2).all(-1).any(0).sum())",
        )


RULE = DoctorRule(
    name="duplicated-inputs",
    proves="rows of the batch are equal to each other, or to rows of another batch",
    how="compares the bits of all rows, and of their targets where rows are equal",
    check=check,
    cannot_see="rows that are almost equal",
)
