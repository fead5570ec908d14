"""What a user may ask of sampling, declared once. Nothing heavy, so that a value that cannot be is refused at once.

A sampling filter is a row of FILTERS and its function: from the row come its option, its help, its check and its place
among the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pellucid.decoding import limits
from pellucid.errors import PellucidError
from pellucid.options import Option, check_options, option

UNKNOWN = ("error", "skip")
MOST_SAMPLES = 10_000
MOST_LENGTH = 100_000  # tokens of one sample
MOST_DRAWN = 2_000_000  # tokens of all samples together
USUAL_LENGTH = 300  # tokens of a sample of running text


@dataclass(frozen=True)
class SamplingFilter:
    """Masks unlikely tokens before one is drawn."""

    name: str
    type: type
    option: Option
    function: str  # "module:function", called with logits and the value


# In the order in which they are applied, after the temperature.
FILTERS: tuple[SamplingFilter, ...] = (
    SamplingFilter(
        "top_k",
        int,
        Option("Top-k sampling: draw from the k likeliest tokens only.", noun="top-k", minimum=1),
        "pellucid.decoding.filters:top_k",
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
        "pellucid.decoding.filters:nucleus",
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
        None, "Beam search with this beam width, in place of sampling.", noun="the beam", maximum=limits.MOST_BEAM
    )
    length_penalty: float = option(0.0, "Length penalty of the beam: scores are log-probability / length^penalty.")
    seed: int = option(0, "Random seed; the same seed gives the same samples.")
    unknown: str = option(
        "error",
        "Characters that the data never have",
        noun="way to treat the unknown",
        choices=UNKNOWN,
    )
    no_cache: bool = option(False, "Read everything again for each token of a network: slower, and the same.")
    filters: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limits.require_seed(self.seed)
        limits.require_temperature(self.temperature)
        limits.require_length_penalty(self.length_penalty)
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
