"""What the measuring of a figure is asked and answers, and the small network that is trained where no run is given.

What is heavy is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    from pellucid.records import TrainingReport

SEED = 1


class Asked(NamedTuple):
    """What the measuring of a figure may listen to; None: it was not said."""

    figure: str
    source: str | None  # data or a run
    kind: str
    encoding: str
    word: str | None
    after: str | None
    seed: int | None
    read: str | None = None  # what a network is to read: a text, or an image file
    patch: int | None = None

    @property
    def chosen_seed(self) -> int:
        return SEED if self.seed is None else self.seed


class Measured(NamedTuple):
    """A record to draw, and what is said of how it came about."""

    seen: Any
    said: tuple[str, ...]


def named_run(asked: Asked) -> Path:
    """The folder of the run that was named; a seed would change nothing in it."""
    from pellucid.runs import find_run

    assert asked.source is not None
    if asked.seed is not None:
        raise PellucidError("--seed changes nothing in a run that is there", fix="Leave it, or the run, out")
    return find_run(asked.source)


def require_nothing_named(asked: Asked) -> None:
    """Refuse data and runs where what is shown is made of the layers alone."""
    if asked.source is not None:
        raise PellucidError(
            f"{asked.figure} is a demonstration and takes neither data nor a run",
            fix=f"Leave {quoted(asked.source)} out",
        )


@contextmanager
def trained_for_it(wishes: Mapping[str, Any], seed: int, data: str = "names") -> Iterator[tuple[TrainingReport, Path]]:
    """A network that is trained to have something to draw: its report and its folder, which goes again."""
    import tempfile

    from pellucid.training.callbacks import Callbacks
    from pellucid.training.opening import DataWishes
    from pellucid.training.run import train
    from pellucid.training.signals import stop_requests
    from pellucid.training.wishes import TrainingWishes

    asked = TrainingWishes(**wishes, seed=seed)
    with tempfile.TemporaryDirectory(prefix="pellucid-") as folder, stop_requests() as stop:
        run = Path(folder) / "shown"
        yield train(DataWishes(data), asked, run, Callbacks(stop)), run
