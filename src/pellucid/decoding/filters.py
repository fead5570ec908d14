"""Barring unlikely tokens before one is drawn. Each filter leaves at least one token, and looks at each row alone."""

import numpy as np

from pellucid.decoding.distributions import FloatArray, softmax
from pellucid.decoding.limits import require_top_k, require_top_p


def top_k(scores: FloatArray, k: int) -> FloatArray:
    """Keep the k likeliest tokens; bar the rest. Of equals those that stand first are kept.

    scores: (..., vocab) -> the same shape, with barred tokens at -inf.

    >>> top_k(np.array([1.0, 3.0, 2.0, 2.0]), k=2).tolist()
    [-inf, 3.0, 2.0, -inf]
    """
    require_top_k(k)
    if k >= scores.shape[-1]:
        return scores
    found = scores.copy()
    np.put_along_axis(found, np.argsort(-scores, axis=-1, kind="stable")[..., k:], -np.inf, axis=-1)
    return found


def nucleus(scores: FloatArray, mass: float) -> FloatArray:
    """Keep the fewest, likeliest tokens whose probabilities reach `mass`; bar the rest.

    scores: (..., vocab) -> the same shape, with barred tokens at -inf.

    >>> softmax(nucleus(np.log([0.5, 0.3, 0.2]), mass=0.6)).round(4).tolist()
    [0.625, 0.375, 0.0]
    """
    require_top_p(mass)
    if mass == 1:  # everything, even what rounding would push past a sum of 1
        return scores
    order = np.argsort(-scores, axis=-1, kind="stable")
    ranked = np.take_along_axis(softmax(scores), order, axis=-1)
    held_by_better = np.cumsum(ranked, axis=-1)[..., :-1]
    # Judged by what *better* tokens hold: for any mass above 0 the token that crosses the line stays, so there is
    # always one to choose.
    is_barred = np.zeros(scores.shape, bool)
    np.put_along_axis(is_barred, order[..., 1:], held_by_better >= mass, axis=-1)
    return np.where(is_barred, -np.inf, scores)
