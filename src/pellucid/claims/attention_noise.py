"""Attention and noise: what noise of mean 0 on one key or one query does to the outputs in the mean.

The mean over the noise is integrated, not drawn: vectors have two numbers, so that it takes few places. Queries, keys
and values are those of attention_sensitivities.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.attention_sensitivities import MOVED, draw_vectors, plain_weights
from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from pellucid.claims.attention_sensitivities import Array


@dataclass(frozen=True)
class NoisyKeyKnobs:
    deviation: float = option(0.01, "Standard deviation of the noise.", minimum=1e-6, maximum=10)
    positions: int = option(8, "Queries, and keys, of two numbers each.", minimum=3, maximum=64)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _mean_over_spread(changes: Array, chances: Array) -> float:
    """The size of the mean change over the root of the mean square change. changes: (cases, ...)."""
    import numpy as np

    mean = np.tensordot(chances, changes, 1)
    square = chances @ (changes.reshape(len(changes), -1) ** 2).sum(1)
    return float(np.linalg.norm(mean) / math.sqrt(square))


def _gauss_nodes(n: int) -> tuple[Array, Array]:
    """Where and with what weights a mean over a normal number is taken."""
    from numpy.polynomial.hermite_e import hermegauss

    places, chances = hermegauss(n)
    return places, chances / chances.sum()


def _even_nodes(n: int) -> tuple[Array, Array]:
    """The same by the trapezoidal rule from -9 to 9."""
    import numpy as np

    places = np.linspace(-9.0, 9.0, n)
    chances = np.exp(-(places**2) / 2)
    return places, chances / chances.sum()


def measure_noisy_key(knobs: NoisyKeyKnobs) -> Numbers:
    """The mean change of all outputs by Gauss's quadrature. Only the noise along a query reaches its output."""
    import torch

    from pellucid.layers.attention import attention_weights, inverse_root
    from pellucid.layers.masks import EVERYTHING

    queries, keys, values = draw_vectors(knobs.positions, knobs.positions, 2, knobs.seed)
    places, chances = _gauss_nodes(101)
    nudges = inverse_root(2) * knobs.deviation * queries.norm(dim=1) * torch.from_numpy(places)[:, None]
    bias = torch.zeros(len(places), knobs.positions, knobs.positions, dtype=torch.float64)
    bias[:, :, MOVED] = nudges  # on the key's score, for each case and each query
    before = attention_weights(queries, keys, mask=EVERYTHING) @ values
    after = attention_weights(queries, keys, mask=EVERYTHING, bias=bias) @ values
    return {"mean over spread": _mean_over_spread((after - before).numpy(), chances)}


def sum_noisy_key(knobs: NoisyKeyKnobs) -> Numbers:
    """The same by formula and the trapezoidal rule."""
    import numpy as np

    queries, keys, values = (one.numpy() for one in draw_vectors(knobs.positions, knobs.positions, 2, knobs.seed))
    weights = plain_weights(queries @ keys.T / math.sqrt(2))
    places, chances = _even_nodes(4001)
    nudges = knobs.deviation * np.linalg.norm(queries, axis=1) / math.sqrt(2) * places[:, None]
    own = weights[:, MOVED]
    gains = (own * np.exp(nudges) / (1 + own * np.expm1(nudges)) - own) / (1 - own)
    return {"mean over spread": _mean_over_spread(gains[:, :, None] * (values[MOVED] - weights @ values), chances)}


def measure_noisy_query(knobs: NoisyKeyKnobs) -> Numbers:
    """The mean change of that query's output, by Gauss's quadrature over both numbers of the noise."""
    import numpy as np
    import torch

    from pellucid.layers.attention import attend
    from pellucid.layers.masks import EVERYTHING

    queries, keys, values = draw_vectors(knobs.positions, knobs.positions, 2, knobs.seed)
    places, chances = _gauss_nodes(61)
    noise = np.stack(np.meshgrid(places, places), -1).reshape(-1, 2)
    cases = queries[MOVED] + knobs.deviation * torch.from_numpy(noise)
    before = attend(queries[[MOVED]], keys, values, mask=EVERYTHING)
    after = attend(cases, keys, values, mask=EVERYTHING)
    return {"mean over spread": _mean_over_spread((after - before).numpy(), np.outer(chances, chances).ravel())}


def sum_noisy_query(knobs: NoisyKeyKnobs) -> Numbers:
    """The same by the trapezoidal rule and NumPy."""
    import numpy as np

    queries, keys, values = (one.numpy() for one in draw_vectors(knobs.positions, knobs.positions, 2, knobs.seed))
    places, chances = _even_nodes(301)
    noise = np.stack(np.meshgrid(places, places), -1).reshape(-1, 2)
    scores = (queries[MOVED] + knobs.deviation * noise) @ keys.T / math.sqrt(2)
    before = plain_weights(queries[[MOVED]] @ keys.T / math.sqrt(2)) @ values
    changes = plain_weights(scores) @ values - before
    return {"mean over spread": _mean_over_spread(changes, np.outer(chances, chances).ravel())}


FAMILY = ClaimFamily(
    name="attention-noise",
    title="Attention and noise",
    picture="sensitivity",
    claims=(
        Claim(
            id="zero-mean-noise-zero-mean-change-key",
            says="noise of mean 0 on a key changes the outputs by 0 in the mean",
            where="homework 1.1e",
            kind="draws",
            measure=measure_noisy_key,
            decides="mean over spread",
            margin=lambda seen: 0.01 - seen["mean over spread"],
            rule="the mean change of all outputs is below 1 % of their root mean square change",
            knobs=NoisyKeyKnobs,
            control={"deviation": 1.0},
            search=Search("deviation", 0.001, 10.0, n_values=9, is_log=True),
            second=sum_noisy_key,
            seeds=5,
            other_reading="exactly 0 it is for no noise: softmax is curved, and the mean grows with the square of it",
        ),
        Claim(
            id="zero-mean-noise-zero-mean-change-query",
            says="noise of mean 0 on a query changes its output by 0 in the mean",
            where="homework 1.1f",
            kind="draws",
            measure=measure_noisy_query,
            decides="mean over spread",
            margin=lambda seen: 0.01 - seen["mean over spread"],
            rule="the mean change of its output is below 1 % of its root mean square change",
            knobs=NoisyKeyKnobs,
            control={"deviation": 1.0},
            search=Search("deviation", 0.001, 10.0, n_values=9, is_log=True),
            second=sum_noisy_query,
            seeds=5,
            other_reading="exactly 0 it is for no noise: softmax is curved, and the mean grows with the square of it",
        ),
    ),
)
