"""`pellucid.inspect`: every part of your module, with its shapes and costs, and why its shapes disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pellucid.api.shown import Shown
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from torch import nn

    from pellucid.records import Inspection


def inspect(model: nn.Module | str, *example: Any, name: str = "") -> Shown[Inspection]:
    """Everything that one forward of a module shows. The module is left as it was.

    model: a module, or an expression such as "nn.Linear(4, 2)". example: what forward is called with; without it,
    inputs are guessed from the first layers.

    >>> seen = inspect("nn.Sequential(nn.Flatten(), nn.Linear(784, 10))")
    >>> seen.parameters, str(seen.rows[-1].outputs[0])
    (7850, '(batch 2, features 10)')
    """
    from torch import nn

    from pellucid.inspection.inspect import inspect_expression, inspect_module

    if isinstance(model, str):
        from pellucid.inspection.expression.modules import build_module

        return Shown(inspect_expression(build_module(model), example, name or " ".join(model.split())))
    if not isinstance(model, nn.Module):
        raise PellucidError(
            f"a {type(model).__name__} is no nn.Module", fix="Give a module, or an expression such as nn.Linear(4, 2)"
        )
    return Shown(inspect_module(model, example, name))
