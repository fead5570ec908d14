"""What a user may ask of sampling, declared once. Nothing heavy, so that a value that cannot be is refused at once.

A sampling filter is a function and its row in FILTERS, from which come its option, its help, its check and its place
among the others. Each leaves at least one token, and looks at each row of logits alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pellucid.errors import PellucidError
from pellucid.options import Option, check_options, option

if TYPE_CHECKING:
    from pellucid.decoding.sampling import FloatArray

UNKNOWN = ("error", "skip")
MOST_SAMPLES = 10_000
MOST_LENGTH = 100_000  # tokens of one sample
MOST_DRAWN = 2_000_000  # tokens of all samples together
USUAL_LENGTH = 300  # tokens of a sample of running text
MOST_SEED = 2**64 - 1
MOST_BEAM = 1_000
MOST_PENALTY = 10.0


def keep_top_k(logits: FloatArray, k: int) -> FloatArray:
    """Keep the k likeliest tokens; mask the rest. Of equals those that stand first are kept.

    logits: (..., vocab) -> the same shape, with masked tokens at -inf.

    >>> import numpy as np
    >>> keep_top_k(np.array([1.0, 3.0, 2.0, 2.0]), k=2).tolist()
    [-inf, 3.0, 2.0, -inf]
    """
    import numpy as np

    if k >= logits.shape[-1]:
        return logits
    found = logits.copy()
    np.put_along_axis(found, np.argsort(-logits, axis=-1, kind="stable")[..., k:], -np.inf, axis=-1)
    return found


def keep_top_p(logits: FloatArray, mass: float) -> FloatArray:
    """Keep the fewest, likeliest tokens whose probabilities reach `mass`; mask the rest.

    logits: (..., vocab) -> the same shape, with masked tokens at -inf.

    >>> import numpy as np
    >>> np.exp(keep_top_p(np.log([0.5, 0.3, 0.2]), mass=0.6)).round(4).tolist()
    [0.5, 0.3, 0.0]
    """
    import numpy as np

    from pellucid.decoding.sampling import softmax

    if mass == 1:  # everything, even what rounding would push past a sum of 1
        return logits
    order = np.argsort(-logits, axis=-1, kind="stable")
    ranked = np.take_along_axis(softmax(logits), order, axis=-1)
    held_by_better = np.cumsum(ranked, axis=-1)[..., :-1]
    # Judged by what *better* tokens hold: for any mass above 0 the token that crosses the line stays, so there is
    # always one to choose.
    is_masked = np.zeros(logits.shape, bool)
    np.put_along_axis(is_masked, order[..., 1:], held_by_better >= mass, axis=-1)
    return np.where(is_masked, -np.inf, logits)


@dataclass(frozen=True)
class SamplingFilter:
    """Masks unlikely tokens before one is drawn."""

    name: str
    type: type
    option: Option
    mask: Callable[[FloatArray, Any], FloatArray]  # (..., vocab) logits and the value -> logits, masked ones at -inf


# In the order in which they are applied, after the temperature.
FILTERS: tuple[SamplingFilter, ...] = (
    SamplingFilter(
        "top_k",
        int,
        Option("Top-k sampling: draw from the k likeliest tokens only.", noun="top-k", minimum=1),
        keep_top_k,
    ),
    SamplingFilter(
        "top_p",
        float,
        Option(
            "Nucleus (top-p) sampling: draw from the fewest tokens that hold this probability.",
            noun="top-p",
            minimum=0,
            is_minimum_open=True,
            maximum=1,
            example="0.9",
        ),
        keep_top_p,
    ),
)


@dataclass(frozen=True)
class SampleOptions:
    """How samples are made. `filters` holds the values of the sampling filters that were asked for, by name.

    >>> SampleOptions(beam=4, temperature=0.5)
    Traceback (most recent call last):
    pellucid.errors.PellucidError: temperature changes nothing with beam, which draws nothing by chance. Leave it out.
    """

    count: int | None = option(
        None,
        "Number of samples; by default 10 of a list, 1 of running text.",
        maximum=MOST_SAMPLES,
        aliases=("-n",),
    )
    prompt: str = option("", "Text that every sample begins with.")
    length: int | None = option(
        None, f"Length of a sample of running text, in tokens; by default {USUAL_LENGTH}.", maximum=MOST_LENGTH
    )
    temperature: float = option(1.0, "Softmax temperature; 0 always takes the likeliest token.")
    beam: int | None = option(
        None, "Beam search with this beam width, in place of sampling.", noun="the beam", maximum=MOST_BEAM
    )
    length_penalty: float = option(0.0, "Length penalty of the beam: scores are log-probability / length^penalty.")
    seed: int = option(0, "Random seed; the same seed gives the same samples.", minimum=0, maximum=MOST_SEED)
    unknown: str = option(
        "error",
        "Characters that the data never have",
        noun="way to treat the unknown",
        choices=UNKNOWN,
    )
    no_cache: bool = option(False, "Read everything again for each token of a network: slower, and the same.")
    filters: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_seed(self.seed)
        require_temperature(self.temperature)
        require_length_penalty(self.length_penalty)
        check_options(self)
        for one in FILTERS:
            if one.name in self.filters:
                one.option.check(one.option.noun, self.filters[one.name], one.type)
        n_samples, length = max(self.count or 1, self.beam or 1), self.length or USUAL_LENGTH
        if n_samples * length > max(MOST_DRAWN, MOST_SAMPLES * USUAL_LENGTH):
            raise PellucidError(
                f"{n_samples:,} samples of {length:,} tokens are too many",
                fix=f"Ask for {MOST_DRAWN:,} tokens or fewer in all",
            )
        self._require_used()

    def _require_used(self) -> None:
        """Refuse what would change nothing."""
        idle: dict[str, bool] = {}
        if self.beam is None:
            idle, where = {"length_penalty": self.length_penalty != 0}, "without {beam}"
            if self.temperature == 0:
                idle |= dict.fromkeys(self.filters, True)
                where = "at temperature 0, which takes the likeliest token" if self.filters else where
        else:
            idle = {"seed": self.seed != 0, "temperature": self.temperature != 1, **dict.fromkeys(self.filters, True)}
            where = "with {beam}, which draws nothing by chance"
            if self.count is not None and self.count > self.beam:
                raise PellucidError(
                    f"a beam of {self.beam} finds at most {self.beam}, and {{count}} is {self.count}",
                    fix="Ask for a wider {beam}",
                    options={"beam": None, "count": None},
                )
        for name, is_idle in idle.items():
            if is_idle:
                raise PellucidError(
                    f"{{{name}}} changes nothing {where}", fix="Leave it out", options={name: None, "beam": None}
                )


def require_temperature(temperature: float) -> None:
    """Refuse a temperature that bends no distribution."""
    if not (math.isfinite(temperature) and temperature >= 0):
        raise PellucidError(
            f"the temperature is {temperature:g}", fix="Choose 0 (always the likeliest) or more; 1 leaves it as it is"
        )


def require_seed(seed: int) -> None:
    """Refuse a seed that is no 64-bit number."""
    if not 0 <= seed <= MOST_SEED:
        raise PellucidError(f"the seed is {seed}", fix="Choose a whole number from 0 to 2^64 - 1")


def require_top_k_fits(k: int, vocab_size: int) -> None:
    """Refuse to keep more tokens than there are."""
    if k > vocab_size:
        raise PellucidError(
            f"top-k is {k:,} and there are {vocab_size:,} tokens",
            fix="Choose fewer, or leave it out to keep all tokens",
        )


def require_beam(width: int) -> None:
    """Refuse a beam that follows nothing, or more than memory is meant for."""
    if not 1 <= width <= MOST_BEAM:
        raise PellucidError(f"the beam is {width}", fix=f"Choose a whole number from 1 to {MOST_BEAM:,}, such as 4")


def require_length_penalty(power: float) -> None:
    """Refuse a power of the length that is negative or overflows; nan is refused too."""
    if not 0 <= power <= MOST_PENALTY:
        raise PellucidError(
            f"the length penalty is {power:g}", fix=f"Choose 0 (none) to {MOST_PENALTY:g}; 1 compares means"
        )
