"""Permutation importances: what a network loses when a column is shuffled among the rows (Breiman 2001).

They are of the network and not of the world: of two columns that say the same, it may read either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.data.prepare import Examples, TablePreparation
from pellucid.data.prepare.named_numbers import value_name
from pellucid.models.contracts import ExampleModel
from pellucid.records import Importance
from pellucid.records.intervals import student_factor
from pellucid.training.tasks.metrics import class_units

Floats = npt.NDArray[Any]

SHUFFLES = 3  # of each column
MOST_ROWS = 500  # evenly from all
MOST_COLUMNS = 200  # with more, each would say next to nothing, and cost its time
MANY_COLUMNS = 50  # from there on one shuffle each


def permutation_effects(task: Any, model: ExampleModel, examples: Examples, seed: int) -> dict[str, Floats]:
    """Of each column, by how much the merit of each row falls without it, on average over shuffles: (rows,).

    The merit is 1 for a right class, or minus the squared error in the units of the target.
    """
    preparation = task.sides.preparation
    if not isinstance(preparation, TablePreparation) or task.sides.task == "reconstruction" or len(examples) < 2:
        return {}
    places = column_places(preparation)
    if len(places) > MOST_COLUMNS:
        return {}
    some = examples.rows(slice(None, None, -(-len(examples) // MOST_ROWS)))
    n_shuffles = SHUFFLES if len(places) <= MANY_COLUMNS else 1
    rng = np.random.default_rng(seed)

    def merits(of: Examples) -> Floats:
        scores = task.score_examples(model, of).scores.double().numpy()
        if task.sides.task == "classification":
            return class_units(scores, some.targets).merits
        squares: Floats = (preparation.deviation * (scores[:, 0] - some.targets)) ** 2
        return -squares

    whole, effects = merits(some), {}
    for name, (numbers, codes) in places.items():
        fallen = np.zeros(len(some))
        for _ in range(n_shuffles):
            order = rng.permutation(len(some))
            shuffled = Examples(some.numbers.copy(), some.codes.copy(), some.targets)
            shuffled.numbers[:, numbers] = some.numbers[order][:, numbers]
            shuffled.codes[:, codes] = some.codes[order][:, codes]
            fallen += (whole - merits(shuffled)) / n_shuffles
        effects[name] = fallen
    return effects


def column_places(preparation: TablePreparation) -> dict[str, tuple[list[int], list[int]]]:
    """Where each column of the table stands among the numbers and among the codes; of dates all parts together.

    A number that may be missing stands in two places: itself, and whether it is.
    """
    found: dict[str, tuple[list[int], list[int]]] = {}
    gaps = len(preparation.numeric)
    for place, column in enumerate(preparation.numeric):
        whole = next((date for date in preparation.dates if column.name.startswith(f"{date} (")), column.name)
        numbers = found.setdefault(whole, ([], []))[0]
        numbers.append(place)
        if column.has_gaps:
            numbers.append(gaps)
            gaps += 1
    numbers_of = {value_name(name): name for name in preparation.named}
    for place, category in enumerate(preparation.categories):
        found.setdefault(numbers_of.get(category.name, category.name), ([], []))[1].append(place)
    return found


def importances_of(effects: Mapping[str, Floats], *, is_share: bool = False) -> tuple[Importance, ...]:
    """The mean of what each column is worth, with its 95 % interval over the rows, the largest first.

    is_share: of answers that are right, of which no more than all can be lost.

    >>> importances_of({"width": np.array([0.0, 1.0, 1.0, 0.0]), "age": np.zeros(4)})[0]
    Importance(column='width', fall=0.5, low=-0.4176, high=1.4176, n_rows=4)
    >>> importances_of({"width": np.array([0.0, 1.0, 1.0, 0.0])}, is_share=True)[0].high
    1.0
    """
    found, most = [], 1.0 if is_share else math.inf
    for name, rows in effects.items():
        n = len(rows)
        error = student_factor(n - 1) * float(rows.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
        mean = float(rows.mean())
        low, high = max(-most, mean - error), min(most, mean + error)
        found.append(Importance(name, round(mean, 6), round(low, 4), round(high, 4), n))
    return tuple(sorted(found, key=lambda one: -one.fall))
