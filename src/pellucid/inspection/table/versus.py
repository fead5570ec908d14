"""Two modules side by side."""

from __future__ import annotations

from pellucid.records.inspection import Inspection, Versus


def versus(left: Inspection, right: Inspection) -> Versus:
    """What each has and costs, and how many times the left one's the right one's is.

    FLOPs are compared at the lengths at which both were counted.
    """
    lines: list[tuple[str, float | None, float | None, str]] = [
        ("parameters", left.parameters, right.parameters, ",.0f"),
        ("bytes of parameters", left.parameter_bytes, right.parameter_bytes, ",.0f"),
        ("FLOPs by formula", left.flops_by_formula, right.flops_by_formula, ",.0f"),
        ("FLOPs by operation", left.flops_by_operation, right.flops_by_operation, ",.0f"),
        *((f"FLOPs at n = {n:,}", one, other, ",.0f") for n, one, other in _at_both_lengths(left, right)),
        ("sequential depth", left.sequential_depth, right.sequential_depth, ",.0f"),
        ("activation bytes", left.activation_bytes, right.activation_bytes, ",.0f"),
        ("cache bytes a token", left.cache_bytes_per_token, right.cache_bytes_per_token, ",.0f"),
        ("milliseconds", left.seconds * 1e3 or None, right.seconds * 1e3 or None, ".3g"),
    ]
    rows = tuple((what, _said(one, form), _said(other, form), _ratio(one, other)) for what, one, other, form in lines)
    return Versus(left, right, rows, tuple(_sentences(left, right)))


def _at_both_lengths(left: Inspection, right: Inspection) -> list[tuple[int, int, int]]:
    if left.scaling is None or right.scaling is None:
        return []
    others = dict(zip(right.scaling.lengths, right.scaling.flops, strict=True))
    here = zip(left.scaling.lengths, left.scaling.flops, strict=True)
    return [(n, flops, others[n]) for n, flops in here if n in others]


def _said(value: float | None, form: str) -> str:
    return "not known" if value is None else format(value, form)


def _ratio(left: float | None, right: float | None) -> str:
    """How many times the left the right is; nothing where that has no meaning."""
    return f"{right / left:.2f}×" if left and right is not None else ""


def _sentences(left: Inspection, right: Inspection) -> list[str]:
    one, other = left.name or left.kind, right.name or right.kind
    says = []
    if left.parameters == right.parameters:
        says.append(f"{one} and {other} have the same number of parameters")
    else:
        says.append(f"{one} has {left.parameters:,} parameters, {other} {right.parameters:,}")
    if left.sequential_depth and right.sequential_depth and left.seconds and right.seconds:
        says.append(
            f"{other} waits for {right.sequential_depth} modules in a row, {one} for {left.sequential_depth}; "
            f"a forward takes it {right.seconds / left.seconds:.2f}× as long, for "
            f"{right.flops_by_operation / max(1, left.flops_by_operation):.2f}× the FLOPs"
        )
    for name, seen in ((one, left), (other, right)):
        if seen.scaling is not None:
            says.append(f"{name}: {seen.scaling.says}")
    return says
