"""From a run's network down to single numbers: every module on one input, its units, and each unit's scalar graph."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.errors import PellucidError, quoted
from pellucid.records import ModuleNumbers, ModuleOnInput, NumberTable, UnitExpression
from pellucid.runs import open_run

if TYPE_CHECKING:
    from torch import Tensor, nn

MOST_ROWS = 32  # of a table of numbers
MOST_COLUMNS = 64
MOST_VALUES = 512  # of one unit's expression: past it the graph has no picture that helps


class NetworkNumbers:
    """The network of a run, run on one input with every module watched."""

    def __init__(self, run: str | Path, text: str = "") -> None:
        self.run = open_run(run)
        self.text = text
        self.rows, inputs = self._read(text)
        self.calls = self._watch(inputs)

    @cached_property
    def model(self) -> nn.Module:
        from pellucid.training.checkpoints import load_network

        return load_network(self.run)[0].for_inference().double()

    def modules(self) -> list[ModuleOnInput]:
        """Every module that was called, in the order of its first call."""
        from pellucid.inspection.unit_expressions import formula_on

        return [
            ModuleOnInput(
                path,
                type(module).__name__,
                tuple(tuple(one.shape) for one in given),
                tuple(made.shape),
                sum(one.numel() for one in module.parameters(recurse=False)),
                bool(given) and formula_on(module, given[0], made) is not None,
            )
            for path, (module, given, made) in self.calls.items()
        ]

    def numbers(self, path: str) -> ModuleNumbers:
        """What a module read and what it put out on this input."""
        from pellucid.inspection.unit_expressions import formula_on

        module, given, made = self._call(path)
        formula = formula_on(module, given[0], made) if given else None
        return ModuleNumbers(
            path,
            type(module).__name__,
            formula.written if formula else "",
            self._table(given[0]) if given else None,
            self._table(made),
        )

    def unit(self, path: str, row: int, unit: int) -> UnitExpression:
        """One unit of a module at one place, as an expression that `derive` takes."""
        from pellucid.inspection.unit_expressions import write_unit

        module, given, made = self._call(path)
        flat = made.reshape(-1, made.shape[-1]) if made.dim() else made.reshape(1, 1)
        if not 0 <= row < flat.shape[0] or not 0 <= unit < flat.shape[1]:
            raise PellucidError(
                f"{quoted(path)} has no number at row {row}, unit {unit}", fix="Choose one of the table"
            )
        written = write_unit(module, given[0], made, row, unit) if given else None
        if written is None:
            raise PellucidError(
                f"no formula is known for {type(module).__name__}", fix="Choose one of the layers inside it"
            )
        n = sum(len(value) if isinstance(value, list) else 1 for value in written.values.values())
        if n > MOST_VALUES:
            raise PellucidError(f"this unit is made of {n:,} numbers", fix=f"Choose one of at most {MOST_VALUES}")
        return UnitExpression(
            path, row, unit, written.expression, written.values, float(flat[row, unit]), n, written.symbols
        )

    def _call(self, path: str) -> tuple[nn.Module, list[Tensor], Tensor]:
        if path not in self.calls:
            raise PellucidError(
                f"the network has no module {quoted(path)} that was called", fix="Choose one of the list"
            )
        return self.calls[path]

    def _read(self, text: str) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """What the network is given, and what its rows stand for."""
        import torch

        if self.run.kind in ("list", "text"):
            from pellucid.training.inference.language_models import TrainedModel, encode_known

            trained = TrainedModel(self.run)
            wanted = text or (self.run.data.first[0][:12] if self.run.data.first else "")
            self.text = wanted
            tokens, _ = encode_known(wanted, trained.vocabulary, "error", "the text")
            read = trained.start(tokens[-trained.longest_prompt :])
            names = tuple(trained.vocabulary.tokens[token] for token in read)
            return names, (torch.tensor([read]),)
        from pellucid.training.run import load_specimen

        specimen = load_specimen(self.run, "")
        return ("the first example of dev",), tuple(
            one[:1] if isinstance(one, torch.Tensor) and one.dim() else one for one in specimen.inputs
        )

    def _watch(self, inputs: tuple[Any, ...]) -> dict[str, tuple[nn.Module, list[Tensor], Tensor]]:
        import torch

        from pellucid.inspection.instrument.recording import hook_modules

        calls: dict[str, tuple[nn.Module, list[Tensor], Tensor]] = {}

        def begins(*_: Any) -> None:
            """Nothing is known yet; the place in the list is that of the first call."""

        def ends(path: str, module: nn.Module, args: tuple[Any, ...], named: dict[str, Any], made: Any) -> None:
            out = made if isinstance(made, torch.Tensor) else next(filter(torch.is_tensor, made), None)
            if isinstance(out, torch.Tensor) and out.dim() and path not in calls:
                given = [one.detach().clone() for one in (*args, *named.values()) if isinstance(one, torch.Tensor)]
                calls[path] = (module, given, out.detach().clone())

        given = tuple(
            one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in inputs
        )
        with torch.no_grad(), hook_modules(list(self.model.named_modules()), begins, ends):
            self.model(*given)
        order = {name: place for place, (name, _) in enumerate(self.model.named_modules())}
        return {path: calls[path] for path in sorted(calls, key=order.__getitem__)}

    def _table(self, tensor: Tensor) -> NumberTable:
        flat = tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() else tensor.reshape(1, 1)
        names = self.rows if len(self.rows) == flat.shape[0] else tuple(str(at) for at in range(flat.shape[0]))
        shown = flat[:MOST_ROWS, :MOST_COLUMNS].tolist()
        return NumberTable(
            names[:MOST_ROWS],
            tuple(tuple(float(one) if math.isfinite(one) else float("nan") for one in row) for row in shown),
            int(flat.shape[1]),
        )
