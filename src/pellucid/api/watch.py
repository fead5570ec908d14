"""`pellucid.watch`: what goes on inside a module while your own loop trains it."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pellucid.api.shown import Shown
from pellucid.errors import PellucidError, did_you_mean, quoted

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from pellucid.inspection.watch import Watch
    from pellucid.records import Finding, Health, Watched


class Watching:
    """A watch over a loop. Inside `with` it looks at some steps; afterwards it tells what they mean."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __enter__(self) -> Watching:
        self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.__exit__(kind, error, trace)

    def findings(self) -> list[Finding]:
        """What was seen, what it means and what to try, the gravest first."""
        return self._watch.findings()

    @property
    def health(self) -> list[Health]:
        """The looks: every layer and every parameter at some of the steps."""
        return self._watch.health

    def report(self) -> Shown[Watched]:
        """All of it: findings, looks and the size of the gradients at every step."""
        return Shown(self._watch.report())

    def draw(self, figure: str, file: str | Path) -> Path:
        """One of the pictures layer-histograms, update-ratios, gradient-norms and unit-maps as .svg, .png or .html."""
        from pellucid.figures.picture import find_figure, picture_file
        from pellucid.figures.words.diagnosis import WATCH_FIGURES

        if figure not in WATCH_FIGURES:
            raise PellucidError(
                f"a watch has no picture called {quoted(figure)}",
                fix=did_you_mean(figure, WATCH_FIGURES),
            )
        path = Path(file)
        if path.suffix not in (".svg", ".png", ".html"):
            raise PellucidError(f"{quoted(path.name)} is no picture", fix="End it with .svg, .png or .html")
        drawn = picture_file(find_figure(figure).draw(self._watch.report()), path.suffix)
        path.write_bytes(drawn if isinstance(drawn, bytes) else drawn.encode())
        return path

    def __repr__(self) -> str:
        return repr(self.report())


def watch(model: nn.Module, optimizer: Optimizer) -> Watching:
    """Looks into a module while your own loop trains it; the loop stays as it is.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with watch(model, optimizer) as seen:
    ...     for _ in range(3):
    ...         optimizer.zero_grad()
    ...         model(torch.ones(4, 2)).square().mean().backward()
    ...         optimizer.step()
    >>> [look.step for look in seen.health]
    [1, 2]
    """
    from pellucid.inspection.watch import Watch

    return Watching(Watch(model, optimizer))
