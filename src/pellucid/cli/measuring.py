"""How each record that a figure may need is measured: on data, on a run, or on something that is trained for it.

What is heavy is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pellucid.cli import measuring_attention, measuring_patches
from pellucid.cli.measured import Asked, Measured, named_run, trained_for_it
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    from pellucid.data import ListData, TextData

# The small network that is trained where no run is given.
SHOWN: dict[str, Any] = {
    "model": "mlp",
    "size": "small",
    "steps": 200,
    "training": {"threads": 1, "batch": 64, "optimizer": "adamw"},
}
# What shows of one run that which a figure shows of several trainings.
OF_RUN = {
    "decay": "loss-curves",
    "hockey-stick": "loss-curves",
    "saturation": "unit-maps",
    "dead-unit": "unit-maps",
    "gains": "layer-histograms",
}


def _opened(asked: Asked) -> ListData | TextData:
    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ListData, TextData

    data = open_data(asked.source or "names", kind=asked.kind, encoding=asked.encoding)
    require_kind(data, "list", "text")
    assert isinstance(data, ListData | TextData)
    return data


def _bigram_counts(asked: Asked) -> Measured:
    if asked.word is not None:
        from pellucid.models.bigram_records import word_counts

        return Measured(word_counts(asked.word), ())
    data = _opened(asked)
    from pellucid.models.bigram_records import bigram_counts

    return Measured(bigram_counts(data), (data.said, *data.notes))


def _smoothing(asked: Asked) -> Measured:
    data = _opened(asked)
    from pellucid.models.bigram_records import smoothing_study

    return Measured(smoothing_study(data, asked.after or ""), (data.said, *data.notes))


def _run(asked: Asked) -> Measured:
    """A run that is finished, or a small one that is trained here and forgotten."""
    if asked.source is None:
        _require_trainable(asked)
        seed = asked.chosen_seed
        with trained_for_it(SHOWN, seed) as (report, _):
            said = f"no run was named: an {SHOWN['model']} of names, {SHOWN['steps']} steps, seed {seed}"
            return Measured(report, (said,))
    run = named_run(asked)

    from pellucid.runs import open_run

    report = open_run(run).report()
    return Measured(report, (f"{report.name}: {report.network.name} on {report.data.said}",))


def _require_trainable(asked: Asked) -> None:
    """Refuse to train a network of names for what it cannot show: only what a seed changes is trained for."""
    from pellucid.figures.picture import figure_called

    if "--seed" not in figure_called(asked.figure).options:
        raise PellucidError(
            f"{asked.figure} is drawn of a run, and none was named",
            fix=f"Train one with pellucid train digits --name first, then draw {asked.figure} first",
        )


def _ladder(asked: Asked) -> Measured:
    measured = _run(asked)
    return Measured(measured.seen.ladder, measured.said)


def _study(name: str) -> Callable[[Asked], Measured]:
    """A demonstration: the function of that name, called with the seed."""

    def measure(asked: Asked) -> Measured:
        _require_no_source(asked)
        from pellucid.training import demonstrations

        return Measured(getattr(demonstrations, name)(asked.chosen_seed), ())

    return measure


def _require_no_source(asked: Asked) -> None:
    """A demonstration is shown on what shows it best; of a run there is another figure."""
    if asked.source is None:
        return
    from pellucid.runs import is_run

    if is_run(asked.source):
        raise PellucidError(
            f"{asked.figure} compares several trainings, and {quoted(asked.source)} is a run",
            fix=f"Draw {OF_RUN[asked.figure]} of it",
        )
    raise PellucidError(f"{asked.figure} is a demonstration and takes no data", fix=f"Leave {quoted(asked.source)} out")


def _rate_search(asked: Asked) -> Measured:
    """Three sweeps with the small network that is also trained where no run is given."""
    _opened(asked)  # what cannot be read is refused before torch is loaded

    from pellucid.training.learning_rate import search_learning_rate
    from pellucid.training.opening import DataWishes
    from pellucid.training.wishes import TrainingWishes

    seed = asked.chosen_seed
    reading = DataWishes(asked.source or "names", asked.kind, asked.encoding)
    return Measured(search_learning_rate(reading, TrainingWishes(**SHOWN, seed=seed), (seed, seed + 1, seed + 2)), ())


def _sizes(asked: Asked) -> Measured:
    """What a comparison at several sizes of the training side wrote into its folder."""
    if asked.source is None:
        raise PellucidError(
            f"{asked.figure} is drawn of a comparison, and none was named",
            fix="Make one with pellucid compare digits --sizes 100,400, and name its folder",
        )
    from pathlib import Path

    from pellucid.runs.paths import BASE
    from pellucid.training.comparison import size_ladder_of

    by_name = BASE / asked.source
    return Measured(size_ladder_of(by_name if by_name.is_dir() else Path(asked.source)), ())


# Each record and its measuring.
MEASURES: dict[str, Callable[[Asked], Measured]] = {
    "BigramCounts": _bigram_counts,
    "Smoothing": _smoothing,
    "TrainingReport": _run,
    "Ladder": _ladder,
    "SizeLadder": _sizes,
    "RateSearch": _rate_search,
    "DecayStudy": _study("decay_study"),
    "StartStudy": _study("start_study"),
    "SaturationStudy": _study("saturation_study"),
    "DeadUnitStudy": _study("dead_unit_study"),
    "GainStudy": _study("gain_study"),
    **measuring_attention.MEASURES,
    **measuring_patches.MEASURES,
}
