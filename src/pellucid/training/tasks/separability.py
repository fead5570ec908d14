"""Whether a linear network can tell all of train right, and what follows from it.

Where it can, cross-entropy has no minimum: twice the weights cost less. Where it cannot, some row is told wrong by all
weights, and the loss stays above a floor. Both are proven, not guessed: the first by weights that do it, the second by
a mix of rows that weighs nothing in any direction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.records import Plan, Separability
from pellucid.training.optimizers import planned_rate_factor

Floats = npt.NDArray[np.float64]

MOST_NUMBERS = 2_000_000  # of the vectors whose hull is searched: with more it would take too long
MOST_FITTED = 20_000_000  # rows times classes times columns, to look for weights without a proof that there are none
FITTED_STEPS = 300
DECIDES = 0.5  # of the weights taken off: from there on the decay decides, and not the steps; the share is shown
NOTHING = 1e-9  # of the longest row: a mix shorter than it is 0 but for rounding


def measure_separability(
    rows: Floats, classes: npt.NDArray[np.int64], scores: Floats, plan: Plan, steps: int
) -> Separability:
    """rows: (rows, columns) of train as the network reads them; scores: (rows, classes), what it says of them.

    steps: that the network made.

    >>> corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> plan = Plan(9, 4, 0, "adamw", 0.01, 0, 0, 0.1, 1, 0, "linear", 1, 1, 1, 1, 1, 1)
    >>> found = measure_separability(corners, np.array([0, 1, 1, 0]), np.zeros((4, 2)), plan, steps=9)
    >>> found.is_separable, found.n_right, round(found.floor, 4) == round(math.log(2), 4)
    (False, 2, True)
    """
    n_rows, n_classes = scores.shape
    is_separable, floor = (True, 0.0) if _are_all_right(scores, classes) else (None, math.nan)
    n_numbers = n_rows * n_classes * (rows.shape[1] + 1)
    if is_separable is None and n_numbers * (n_classes - 1) <= MOST_NUMBERS:
        is_separable, floor = _search_weights(rows, classes, n_classes)
    elif is_separable is None and n_numbers <= MOST_FITTED and _are_all_right(_fit_long(rows, classes), classes):
        is_separable, floor = True, 0.0
    decayed = decayed_share(plan, steps)
    decided_by = "penalty" if plan.penalty else "weight decay" if decayed > DECIDES else "steps"
    return Separability(
        is_separable=is_separable,
        n_rows=n_rows,
        n_right=int((scores.argmax(1) == classes).sum()),
        loss=_cross_entropy(scores, classes),
        doubled=_cross_entropy(2 * scores, classes),
        floor=floor,
        decided_by=decided_by,
        strength=plan.strength if plan.penalty else plan.weight_decay,
        steps=steps,
        decayed=decayed,
    )


def decayed_share(plan: Plan, steps: int) -> float:
    """What weight decay alone takes off weights in so many steps of the plan.

    >>> plan = Plan(100, 4, 0, "adamw", 0.1, 0, 0, 0.05, 1, 0, "constant", 1, 1, 1, 1, 1, 1)
    >>> round(decayed_share(plan, 100), 3), round(1 - (1 - 0.1 * 0.05) ** 100, 3)
    (0.394, 0.394)
    """
    factors = [planned_rate_factor(plan, step) for step in range(1, steps + 1)]
    rate = plan.learning_rate / (1 - plan.momentum if plan.optimizer == "sgd" else 1.0)
    return 1.0 - math.exp(sum(math.log1p(-min(0.999, rate * factor * plan.weight_decay)) for factor in factors))


def _cross_entropy(scores: Floats, classes: npt.NDArray[np.int64]) -> float:
    return float((np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(scores)), classes]).mean())


def _are_all_right(scores: Floats, classes: npt.NDArray[np.int64]) -> bool:
    """Whether the class of every row has the highest score, and no other as high a one."""
    others = scores.copy()
    others[np.arange(len(scores)), classes] = -np.inf
    return bool((scores[np.arange(len(scores)), classes] > others.max(1)).all())


def _fit_long(rows: Floats, classes: npt.NDArray[np.int64]) -> Floats:
    """The scores of logistic regression with next to no penalty, after many steps: (rows, classes)."""
    if len(np.unique(classes)) < 2:
        return np.eye(int(classes.max()) + 1)[classes]  # a bias alone says the only class
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # on separable rows there is nothing to converge to
        fitted = LogisticRegression(C=1e8, max_iter=FITTED_STEPS).fit(rows, classes)
    scores: Floats = np.full((len(rows), int(classes.max()) + 1), -np.inf)
    said = fitted.decision_function(rows)
    scores[:, fitted.classes_] = said if said.ndim == 2 else np.stack([-said, said], axis=1)
    return scores


def _search_weights(rows: Floats, classes: npt.NDArray[np.int64], n_classes: int) -> tuple[bool | None, float]:
    """Whether some weights tell every row right, and the loss that none gets below; None and nan: rounding hides it.

    Weights W tell row x of class y right where (e_y - e_k) ⊗ (x, 1) · W > 0 for every other class k. The point of the
    hull of these vectors that is nearest to 0 is such a W; if it is 0 itself, there is none (Gordan 1873).
    """
    of_rows, others = np.nonzero(np.arange(n_classes) != classes[:, None])
    with_one = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    signs = np.eye(n_classes)[classes[of_rows]] - np.eye(n_classes)[others]
    vectors = (signs[:, :, None] * with_one[of_rows][:, None, :]).reshape(len(of_rows), -1)
    shares = nearest_hull_point(vectors)
    point = shares @ vectors
    if (vectors @ point > 0).all():
        return True, 0.0
    if np.linalg.norm(point) > NOTHING * np.linalg.norm(vectors, axis=1).max():
        return None, math.nan
    taken = np.zeros((len(rows), n_classes))
    taken[of_rows, others] = shares
    return False, _loss_floor(taken)


def nearest_hull_point(points: Floats) -> Floats:
    """The shares of points, (points,), whose mix is the point of their hull that is nearest to 0 (Wolfe 1976).

    >>> nearest_hull_point(np.array([[1.0, 1.0], [1.0, -1.0], [3.0, 0.0]])).round(6).tolist()
    [0.5, 0.5, 0.0]
    """
    used = [int(np.linalg.norm(points, axis=1).argmin())]
    shares = np.ones(1)
    scale = float((points**2).sum(1).max()) or 1.0
    for _ in range(10 * sum(points.shape)):
        point = shares @ points[used]
        ahead = points @ point
        nearest = int(ahead.argmin())
        if point @ point - ahead[nearest] <= 1e-13 * scale or nearest in used:
            break
        used, shares = [*used, nearest], np.append(shares, 0.0)
        while True:
            wanted = _nearest_of_plane(points[used])
            if (wanted > 1e-12).all():
                shares = wanted
                break
            # As far towards it as no share falls below 0; whose does is left out.
            falling = np.flatnonzero(wanted <= 1e-12)
            way = min(1.0, float((shares[falling] / np.maximum(shares[falling] - wanted[falling], 1e-300)).min()))
            shares = way * wanted + (1 - way) * shares
            shares[falling[shares[falling] <= 1e-12]] = 0.0
            stays = shares > 0
            if stays.all():
                stays[falling[shares[falling].argmin()]] = False
            used = [one for one, kept in zip(used, stays, strict=True) if kept]
            shares = shares[stays] / shares[stays].sum()
    found = np.zeros(len(points))
    found[used] = shares
    return found


def _nearest_of_plane(points: Floats) -> Floats:
    """The shares, of any sign, whose mix is the point of the plane through the points that is nearest to 0."""
    n = len(points)
    system: npt.NDArray[Any] = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = points @ points.T, 0.0
    found: Floats = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0][:n]
    return found


def _loss_floor(taken: Floats) -> float:
    """The cross-entropy that no weights get below, in nats a row.

    taken: (rows, classes), shares of a mix that weighs nothing. If each row says its other classes by c times these,
    and its own with the rest, then by the convexity of log Σ exp no loss is below the mean entropy of that; c is chosen
    so that it is the highest.
    """
    of_others = taken.sum(1)
    most = 1.0 / of_others.max()

    def bound(c: float) -> float:
        said = np.concatenate([c * taken, (1.0 - c * of_others)[:, None]], axis=1).clip(1e-300, 1.0)
        return float(-(said * np.log(said)).sum(1).mean())

    low, high = 0.0, most
    for _ in range(100):
        third = (high - low) / 3
        low, high = (low + third, high) if bound(low + third) < bound(high - third) else (low, high - third)
    return bound((low + high) / 2)
