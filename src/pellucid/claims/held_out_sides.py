"""Held-out sides: what the error on a test side tells of later rows, and what choosing by it does.

Where a model is needed, it is the mean of the five nearest rows or a straight line. Rows are those of the set
`transactions`, or a level that wanders over time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

SECONDS_PER_ITEM, SECONDS_TO_PAY = 2.5, 20.0  # at the till: a straight law
PROGRAMME_STARTS = 1_000_000 / 1_700_000  # of the rows
NEAREST = 5


def fit_and_predict(model: str, x: Array, y: Array, at: Array) -> Array:
    """The mean of the five rows with the nearest x, or the straight line of least squares."""
    import numpy as np

    if model == "line":
        line: Array = np.polynomial.Polynomial.fit(x, y, 1)(at)
        return line
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    first = np.clip(np.searchsorted(x, at) - NEAREST, 0, len(x) - 2 * NEAREST)
    window = first[:, None] + np.arange(2 * NEAREST)
    nearest = np.argsort(np.abs(x[window] - at[:, None]), axis=1, kind="stable")[:, :NEAREST]
    mean: Array = y[np.take_along_axis(window, nearest, axis=1)].mean(1)
    return mean


def root_mean_square(errors: Array) -> float:
    return float((errors**2).mean() ** 0.5)


@dataclass(frozen=True)
class ExtremesKnobs:
    model: str = option("nearest", "The mean of the five nearest rows, or a line", choices=("nearest", "line"))
    noise: str = option(
        "proportional", "How far seconds at the till are off: by a tenth, or by 5 s", choices=("proportional", "equal")
    )
    rows: int = option(4_000, "Transactions; as many more are later ones.", minimum=500, maximum=100_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def draw_basket_sizes(seed: int, n: int) -> Array:
    from pellucid.data.sets import transactions

    return transactions.load(seed=seed, n=n).frame["items_scanned"].to_numpy().astype(float)


def measure_one_sided_extremes(knobs: ExtremesKnobs) -> Numbers:
    """Seconds at the till, told from the number of items; the top 1 % are all tested on, shared, or all trained on."""
    import numpy as np

    items = draw_basket_sizes(knobs.seed, 2 * knobs.rows)
    rng = np.random.default_rng([knobs.seed, 8])
    truth = SECONDS_TO_PAY + SECONDS_PER_ITEM * items
    seconds = truth + rng.normal(size=len(items)) * (0.1 * truth if knobs.noise == "proportional" else 5.0)
    x, y, later_x, later_y = items[: knobs.rows], seconds[: knobs.rows], items[knobs.rows :], seconds[knobs.rows :]
    is_extreme = x > np.quantile(x, 0.99)
    is_test = rng.random(len(x)) < 0.2

    def off(train: Array, at: Array, wanted: Array) -> Array:
        found: Array = np.abs(fit_and_predict(knobs.model, x[train], y[train], at) - wanted)
        return found

    asked, easy, in_train = is_test & is_extreme, is_test & ~is_extreme, ~is_test | is_extreme
    return {
        "error on extremes, none in train": float((off(~is_test & ~is_extreme, x[asked], y[asked]) / y[asked]).mean()),
        "error on extremes, shared": float((off(~is_test, x[asked], y[asked]) / y[asked]).mean()),
        "test error, none in test": root_mean_square(off(in_train, x[easy], y[easy])),
        "error on later rows": root_mean_square(off(in_train, later_x, later_y)),
    }


@dataclass(frozen=True)
class ShiftKnobs:
    changes: str = option("inputs", "What is other on the test side", choices=("inputs", "law"))
    rows: int = option(4_000, "Transactions.", minimum=500, maximum=100_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_shift(knobs: ShiftKnobs) -> Numbers:
    """Seconds at the till by the number of items: the law of train, that of test, and what train's law is off there."""
    import numpy as np

    is_test = np.arange(knobs.rows) >= 0.8 * knobs.rows
    items = draw_basket_sizes(knobs.seed, knobs.rows)
    if knobs.changes == "inputs":
        items = np.where(is_test, np.ceil(1.35 * items), items)
    slope = np.where(is_test & (knobs.changes == "law"), 1.35, 1.0) * SECONDS_PER_ITEM
    seconds = SECONDS_TO_PAY + slope * items + 5 * np.random.default_rng([knobs.seed, 9]).normal(size=knobs.rows)

    def fit_line(part: Array) -> tuple[float, float, float]:
        x, y = items[part], seconds[part]
        centred = x - x.mean()
        by_item = float((centred * y).sum() / (centred**2).sum())
        rest = y - y.mean() - by_item * centred
        return by_item, float(y.mean() - by_item * x.mean()), float(np.sqrt(rest.var() / (centred**2).sum()))

    (before, start, error), (after, _, other_error) = fit_line(~is_test), fit_line(is_test)
    missed = seconds - start - before * items
    return {
        "law of train, s an item": before,
        "law of test, s an item": after,
        "apart in standard errors": abs(after - before) / math.hypot(error, other_error),
        "items in train": float(items[~is_test].mean()),
        "items in test": float(items[is_test].mean()),
        "test error over train error": root_mean_square(missed[is_test]) / root_mean_square(missed[~is_test]),
    }


@dataclass(frozen=True)
class SeriesKnobs:
    memory: float = option(0.99, "Correlation of a row's level with that of the next.", minimum=0, maximum=0.9999)
    rows: int = option(1_000, "Rows that are divided; a fifth as many come later.", minimum=100, maximum=20_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_series(knobs: SeriesKnobs) -> Numbers:
    """A number that wanders over time, told from the rows whose time is nearest: by chance, by time, and afterwards."""
    import numpy as np

    n_later = knobs.rows // 5
    rng = np.random.default_rng(knobs.seed)
    level = rng.normal(size=knobs.rows + n_later)
    for at in range(1, len(level)):
        level[at] = knobs.memory * level[at - 1] + math.sqrt(1 - knobs.memory**2) * level[at]
    y = level + 0.3 * rng.normal(size=len(level))
    time = np.arange(len(y), dtype=float)

    def error(train: Array, test: Array) -> float:
        return root_mean_square(fit_and_predict("nearest", time[train], y[train], time[test]) - y[test])

    known, later = np.arange(knobs.rows), np.arange(knobs.rows, len(y))
    shuffled, cut = rng.permutation(knobs.rows), knobs.rows - n_later
    by_chance = error(shuffled[:cut], shuffled[cut:])
    afterwards = error(known, later)
    return {
        "test error by chance": by_chance,
        "test error by time": error(known[:cut], known[cut:]),
        "error later": afterwards,
        "later over by chance": afterwards / by_chance,
    }


def is_nearer_by_time(seen: Numbers) -> float:
    off = {how: abs(math.log(seen[f"test error by {how}"] / seen["error later"])) for how in ("chance", "time")}
    return off["chance"] - off["time"] - 0.1


@dataclass(frozen=True)
class ProgrammeKnobs:
    lift: float = option(1.35, "By what baskets grow with the programme.", minimum=0.1, maximum=10)
    customers: int = option(0, "Customers that are told apart and keep their habits; 0: none.", minimum=0, maximum=2000)
    rows: int = option(4_000, "Transactions.", minimum=500, maximum=100_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_programme(knobs: ProgrammeKnobs) -> Numbers:
    """Rows from before the programme, told without and with rows from after it in train, by the mean of their kind."""
    import numpy as np

    from pellucid.data.sets import transactions

    frame = transactions.load(seed=knobs.seed, n=knobs.rows).frame
    rng = np.random.default_rng([knobs.seed, 10])
    size = np.log(frame["items_scanned"].to_numpy())
    kind = frame["loyalty_tier"].rank("dense").to_numpy().astype(np.int64)
    if knobs.customers:
        kind = rng.integers(knobs.customers, size=knobs.rows)
        size = size + 0.75 * rng.normal(size=knobs.customers)[kind]
    is_after = np.arange(knobs.rows) >= PROGRAMME_STARTS * knobs.rows
    size = size + np.where(is_after, math.log(knobs.lift), 0.0)
    is_test = ~is_after & (rng.random(knobs.rows) < 0.2)

    def error(train: Array) -> float:
        counts = np.bincount(kind[train], minlength=kind.max() + 1)
        sums = np.bincount(kind[train], weights=size[train], minlength=kind.max() + 1)
        means = (sums + size[train].mean()) / (counts + 1)
        return float(np.abs(means[kind[is_test]] - size[is_test]).mean())

    without, with_later = error(~is_test & ~is_after), error(~is_test)
    return {
        "error without later rows": without,
        "error with later rows": with_later,
        "part by which it falls": 1 - with_later / without,
    }


@dataclass(frozen=True)
class TuningKnobs:
    rows: int = option(24, "Rows of a noisy curve.", minimum=10, maximum=5000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_tuning(knobs: TuningKnobs) -> Numbers:
    """The degree of a polynomial, chosen by the error on train or by that on a held-out third: the median of 21."""
    import numpy as np

    rng = np.random.default_rng(knobs.seed)
    degrees, noise = range(1, 13), 0.3
    unseen_x = np.linspace(-1, 1, 500)
    found = []
    for _ in range(21):
        x = rng.uniform(-1, 1, knobs.rows)
        y = np.sin(3 * x) + noise * rng.normal(size=knobs.rows)
        part = 2 * knobs.rows // 3
        whole_fits = [np.polynomial.Chebyshev.fit(x, y, degree, domain=[-1, 1]) for degree in degrees]
        part_fits = [np.polynomial.Chebyshev.fit(x[:part], y[:part], degree, domain=[-1, 1]) for degree in degrees]
        by_train = int(np.argmin([root_mean_square(fit(x) - y) for fit in whole_fits]))
        by_held = int(np.argmin([root_mean_square(fit(x[part:]) - y[part:]) for fit in part_fits]))
        unseen = [
            math.hypot(noise, root_mean_square(whole_fits[at](unseen_x) - np.sin(3 * unseen_x)))
            for at in (by_train, by_held)
        ]
        found.append((degrees[by_train], degrees[by_held], *unseen))
    medians = np.median(found, axis=0).tolist()
    names = ("degree by train", "degree by the held-out", "unseen error, by train", "unseen error, by the held-out")
    return dict(zip(names, medians, strict=True))


@dataclass(frozen=True)
class PeekKnobs:
    tries: int = option(100, "Models that are compared on the test side.", minimum=1, maximum=10_000)
    rows: int = option(100, "Rows of the test side.", minimum=10, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_peeking(knobs: PeekKnobs) -> Numbers:
    """The best of many models that all guess, by their accuracy on one test side; the mean of 400 such choices."""
    import numpy as np

    right = np.random.default_rng(knobs.seed).binomial(knobs.rows, 0.5, size=(400, knobs.tries))
    return {"accuracy of the best": float(right.max(1).mean() / knobs.rows), "its true accuracy": 0.5}


def expect_best(knobs: PeekKnobs) -> Numbers:
    """The expectation of the greatest of so many binomial numbers, from their distribution."""
    below, expected = 0, 0.0
    for right in range(knobs.rows):
        below += math.comb(knobs.rows, right)
        expected += 1 - (below / 2**knobs.rows) ** knobs.tries
    return {"accuracy of the best": expected / knobs.rows}


FAMILY = ClaimFamily(
    name="held-out-sides",
    title="What a held-out side tells",
    claims=(
        Claim(
            id="shift-called-concept-drift",
            says="a test side whose items are distributed otherwise is a case of concept drift",
            where="log Q1",
            kind="draws",
            measure=measure_shift,
            decides="apart in standard errors",
            margin=lambda seen: seen["apart in standard errors"] - 3,
            rule="where only the inputs are shifted, what is to be learned differs by more than 3 standard errors",
            knobs=ShiftKnobs,
            control={"changes": "law"},
            seeds=8,
            other_reading="that inputs differ is called covariate shift; drift of the concept is that the law does",
        ),
        Claim(
            id="outliers-only-in-test-blind",
            says="a model that saw no extremes in train predicts them poorly",
            where="log Q3",
            kind="draws",
            measure=measure_one_sided_extremes,
            decides="error on extremes, none in train",
            margin=lambda seen: seen["error on extremes, none in train"] / seen["error on extremes, shared"] - 2,
            rule="its mean relative error on the top 1 % is more than twice that of one which saw four fifths of them",
            knobs=ExtremesKnobs,
            control={"model": "line"},
            seeds=30,
            other_reading="a straight line is not blind where the law is straight: that is the control",
        ),
        Claim(
            id="outliers-only-in-train-optimistic",
            says="a test side without extremes gives too good a score",
            where="log Q3",
            kind="draws",
            measure=measure_one_sided_extremes,
            decides="test error, none in test",
            margin=lambda seen: 0.8 - seen["test error, none in test"] / seen["error on later rows"],
            rule="the test error is less than four fifths of the error on later rows",
            knobs=ExtremesKnobs,
            control={"model": "line", "noise": "equal"},
            seeds=30,
        ),
        Claim(
            id="random-split-lookahead-bias",
            says="rows in the order of time that are divided by chance make a model look good that fails later",
            where="log Q3",
            kind="draws",
            measure=measure_series,
            decides="later over by chance",
            margin=lambda seen: seen["later over by chance"] - 1.5,
            rule="the error on later rows is more than one and a half times the test error of a random split",
            knobs=SeriesKnobs,
            control={"memory": 0.0},
            search=Search("memory", 0.0, 0.99),
            seeds=8,
            other_reading="a level that hardly moves while the later rows come (memory 0.999) does not fail either",
        ),
        Claim(
            id="loyalty-program-example-leaks",
            says="rows from after a programme started, put into train, let a model foretell the rows before it",
            where="log Q3",
            kind="draws",
            measure=measure_programme,
            decides="part by which it falls",
            margin=lambda seen: seen["part by which it falls"] - 0.01,
            rule="with later rows in train the error on rows from before the programme falls by more than 1 %",
            knobs=ProgrammeKnobs,
            control={"customers": 400, "lift": 1.0},
            seeds=8,
            other_reading="what leaks is what later rows tell of the same customer: that is the control",
        ),
        Claim(
            id="time-split-simulates-production",
            says="a split by time is tested as the model will be used",
            where="log Q3",
            kind="draws",
            measure=measure_series,
            decides="test error by time",
            margin=is_nearer_by_time,
            rule="its test error is nearer to the later error than that of a random split, by more than 0.1 in the "
            "logarithm of their ratio",
            knobs=SeriesKnobs,
            control={"memory": 0.0},
            seeds=30,
        ),
        Claim(
            id="split-solves-overfitting",
            says="overfitting is solved by tuning on a side that is held out",
            where="notes §13(b)",
            kind="draws",
            measure=measure_tuning,
            decides="unseen error, by the held-out",
            margin=lambda seen: 0.9 - seen["unseen error, by the held-out"] / seen["unseen error, by train"],
            rule="what a held-out third chooses has an unseen error lower by a tenth than what train chooses",
            knobs=TuningKnobs,
            control={"rows": 1000},
            seeds=8,
            other_reading="dividing rows by itself changes no model",
        ),
        Claim(
            id="test-set-sparingly",
            says="the test side may be used for few decisions only",
            where="notes §13.1",
            kind="draws",
            measure=measure_peeking,
            decides="accuracy of the best",
            margin=lambda seen: seen["accuracy of the best"] - seen["its true accuracy"] - 0.05,
            rule="the best of 100 models that guess looks better than it is by more than one standard error, 5 points",
            knobs=PeekKnobs,
            control={"tries": 1},
            second=expect_best,
            tolerance=0.01,
            seeds=8,
        ),
    ),
)
