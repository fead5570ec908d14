"""Blue for what lowers the output, orange for what raises it: two colours that everyone can tell apart."""

import math
from collections.abc import Sequence

from pellucid.figures.graph.folding import Wire
from pellucid.records import BackwardPass, GraphNode


def tint(gradient: float, scale: float) -> str:
    """A class that tells the sign and, in four steps, the size beside the largest.

    >>> tint(-0.02, scale=1.0), tint(0.5, scale=1.0), tint(0.0, scale=1.0)
    ('minus-2', 'plus-4', 'none')
    """
    if gradient == 0.0 or math.isnan(gradient):
        return "none"
    part = abs(gradient) / scale if scale and not math.isinf(gradient) else 1.0
    level = 4 if part >= 0.5 else 3 if part >= 0.1 else 2 if part >= 0.01 else 1
    return f"{'plus' if gradient > 0 else 'minus'}-{level}"


def largest(gradients: Sequence[float]) -> float:
    """The largest finite size among them, which the tints are measured by."""
    return max([abs(gradient) for gradient in gradients if math.isfinite(gradient)], default=0.0)


def is_constant(node: GraphNode) -> bool:
    return not node.can_move


def wire_tint(nodes: Sequence[GraphNode], wire: Wire, back: BackwardPass, scale: float) -> str:
    """The tint of what comes back along the wire."""
    if wire.node is None:
        return "none"
    node = nodes[wire.node]
    if is_constant(nodes[node.parents[wire.position]]) or not node.is_heard[wire.position]:
        return "none"
    return tint(back.gradients[node.place] * node.slopes[wire.position], scale)
