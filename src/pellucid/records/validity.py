"""What the numbers and names of a record can be, beyond their types: checked by `from_plain`, whoever wrote the file.

A run's folder may come from anyone. Its types are the records' own; here stand the ranges of numbers, the names that
there are, and what must fit together within one record. A field that is not named may hold whatever its type can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pellucid.records.answers import Answers, Calibration, Confusion, CrossValidation, Gain
from pellucid.records.counting import Sample
from pellucid.records.training import (
    SEVERITIES,
    DataFacts,
    Ending,
    Evaluation,
    Finding,
    Health,
    Histogram,
    InitialLoss,
    Ladder,
    LayerStats,
    Measure,
    NetworkFacts,
    Plan,
    Replan,
    Rung,
    SampledAt,
    Separability,
    Step,
    Timing,
    TokenAccuracy,
    UnitMap,
    Verdict,
    WeightStats,
)

LARGEST_WHOLE = 2**64 - 1  # of any whole number, as of a seed
MOST_STEPS = 1_000_000_000
MOST_EXAMPLES = 1 << 40
MOST_SYMBOLS = 256  # of a vocabulary that are kept beside its size
KINDS = ("list", "text", "pairs", "table", "images")
SIDES = ("train", "dev", "test")


class Between(NamedTuple):
    """Numbers from low to high; nan is none of them."""

    low: float
    high: float = math.inf

    def holds(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)


class OneOf(NamedTuple):
    """Names that there are."""

    names: tuple[str, ...]

    def holds(self, value: Any) -> bool:
        return value in self.names


class KnownBetween(NamedTuple):
    """Numbers that may be nan, where that means not known, and otherwise from low to high."""

    low: float
    high: float = math.inf

    def holds(self, value: Any) -> bool:
        return math.isnan(value) or self.low <= value <= self.high


class AnyMeasure(NamedTuple):
    """Numbers that were measured: any that pictures can be drawn with, or not finite where a training went astray."""

    most: float = 1e30

    def holds(self, value: Any) -> bool:
        return not math.isfinite(value) or abs(value) <= self.most


Rule = Between | OneOf | KnownBetween | AnyMeasure
STEP = Between(0, MOST_STEPS)
COUNT = Between(0, MOST_EXAMPLES)
SHARE = Between(0, 1)
MEASURED = AnyMeasure()
SECONDS = Between(0, 1e12)

RULES: Mapping[type, Mapping[str, Rule]] = {
    Plan: {
        "steps": STEP,
        "batch_size": Between(0, 1 << 30),
        "context": Between(0, 1 << 30),
        "learning_rate": Between(0, 1e3),
        "matrix_learning_rate": Between(0, 1e3),
        "momentum": Between(0, 1),
        "weight_decay": Between(0, 1e3),
        "clip": Between(0, 1e9),
        "warmup": STEP,
        "evaluate_every": STEP,
        "probe_every": STEP,
        "sample_every": STEP,
        "save_every": STEP,
        "threads": Between(1, 1024),
        "seed": Between(0, LARGEST_WHOLE),
        "seconds": SECONDS,
        "size": OneOf(("", "tiny", "small", "medium", "large")),
        "strength": Between(0, 1e6),
        "shift": Between(0, 64),
        "start": OneOf(("scratch", "counts")),
        "evaluated": COUNT,
        "folds": Between(0, 20),
        "class_weights": OneOf(("none", "balanced")),
        "available": SECONDS,
    },
    Replan: {"step": STEP, "steps": Between(1, MOST_STEPS), "why": OneOf(("clock", "dev"))},
    Step: {
        "step": STEP,
        "loss": MEASURED,
        "n_tokens": COUNT,
        "learning_rate": Between(0, 1e6),
        "gradient_norm": MEASURED,
    },
    Evaluation: {"step": STEP, "train": MEASURED, "dev": MEASURED, "metric": MEASURED},
    Timing: {"step": STEP, "seconds": SECONDS, "tokens_per_second": Between(0), "stepping": SECONDS},
    SampledAt: {"step": STEP},
    Health: {"step": STEP},
    LayerStats: {
        "width": COUNT,
        "examples": COUNT,
        "saturated": KnownBetween(0, 1),
        "always_zero": COUNT,
        "mean": MEASURED,
        "deviation": MEASURED,
        "gradient_mean": MEASURED,
        "gradient_deviation": MEASURED,
    },
    Histogram: {"low": MEASURED, "high": MEASURED},
    WeightStats: {"deviation": MEASURED, "gradient_norm": MEASURED, "update_ratio": MEASURED},
    Finding: {"severity": OneOf(SEVERITIES), "step": STEP},
    InitialLoss: {
        "start": OneOf(
            (
                "unsure",
                "sure and wrong",
                "informed",
                "too informed",
                "from counting",
                "from a run",
                "not finite",
                "counted",
            )
        ),
        "vocab_size": COUNT,
    },
    Ending: {
        "reason": OneOf(("budget", "plateau", "over-fit", "counted")),
        "step": STEP,
        "best_step": STEP,
    },
    Verdict: {
        "name": OneOf(("under-fit", "good fit", "over-fit", "not known", "counted")),
        "reason": OneOf(
            (
                "dev rose",
                "by heart",
                "solved",
                "rest is random",
                "all right",
                "still falling",
                "behind simple models",
                "nothing learned",
                "nothing by heart",
                "at rest",
                "same answer",
                "nothing held out",
                "counted",
            )
        ),
    },
    Separability: {"n_rows": COUNT, "n_right": COUNT, "decided_by": OneOf(("weight decay", "penalty", "steps"))},
    Measure: {"side": OneOf(SIDES)},
    TokenAccuracy: {
        "side": OneOf(SIDES),
        "share_right": KnownBetween(0, 1),
        "n_tokens": COUNT,
        "whole": OneOf(("", "item", "word")),
        "n_whole": COUNT,
        "n_whole_right": COUNT,
    },
    Rung: {
        "train": MEASURED,
        "dev": MEASURED,
        "test": MEASURED,
        "metric": MEASURED,
        "test_metric": MEASURED,
        "bits_per_character": MEASURED,
        "parameters": COUNT,
        "seconds": SECONDS,
        "tokens_per_second": Between(0),
    },
    Gain: {"n": COUNT, "mean": MEASURED, "low": MEASURED, "high": MEASURED},
    CrossValidation: {"parts": Between(2, 1000), "n_done": Between(0, 1000), "n_rows": COUNT, "steps": STEP},
    DataFacts: {
        "kind": OneOf(KINDS),
        "vocab_size": Between(0, 1 << 31),
        "task": OneOf(("", "classification", "regression", "reconstruction")),
        "dev_of_train": SHARE,
    },
    NetworkFacts: {"parameters": COUNT},
    Sample: {
        "n_tokens": COUNT,
        "where": OneOf(("train", "dev", "new", "not known", "")),
        "distance": Between(-1, MOST_EXAMPLES),
    },
    Answers: {"n": COUNT, "n_unknown": COUNT, "side": OneOf(SIDES)},
    Calibration: {"error": KnownBetween(0, 1)},
}


def find_mistake(record: object) -> str:
    """The field of a record that holds what cannot be, or "" where everything can.

    >>> find_mistake(Replan(340, 500)), find_mistake(Replan(-1, 500)), find_mistake(Replan(340, 500, "mood"))
    ('', 'step', 'why')
    """
    for name, rule in RULES.get(type(record), {}).items():
        value = getattr(record, name)
        if value is not None and not rule.holds(value):
            return name
    fits = _FITTING.get(type(record))
    return fits(record) if fits else ""


def _mistake_in_plan(plan: Plan) -> str:
    rhythms = ("evaluate_every", "probe_every", "sample_every", "save_every", "batch_size")
    return next((name for name in rhythms if plan.steps and not getattr(plan, name)), "")


def _mistake_in_confusion(found: Confusion) -> str:
    n = len(found.classes)
    is_square = len(found.counts) == n and all(len(row) == n and min(row, default=0) >= 0 for row in found.counts)
    return "" if is_square else "counts"


def _mistake_in_histogram(found: Histogram) -> str:
    return "counts" if min(found.counts, default=0) < 0 else ""


def _mistake_in_map(found: UnitMap) -> str:
    """Digits in rows of one length."""
    for name, rows in (("values", found.values), ("gradients", found.gradients)):
        if len({len(row) for row in rows}) > 1 or any(row and not (row.isascii() and row.isdigit()) for row in rows):
            return name
    return ""


def _mistake_in_facts(found: DataFacts) -> str:
    for name, sizes in (("items", found.items), ("n_tokens", found.n_tokens)):
        if not set(SIDES) <= set(sizes) or min(sizes.values(), default=0) < 0:
            return name
    if min(found.class_counts, default=0) < 0:
        return "class_counts"
    has_symbols = not found.symbols or len(found.symbols) == min(found.vocab_size, MOST_SYMBOLS)
    return "" if has_symbols else "vocab_size"


def _mistake_in_ladder(found: Ladder) -> str:
    return "" if found.rungs else "rungs"


def _mistake_in_network(found: NetworkFacts) -> str:
    return "layers" if any(min(shape, default=0) < 0 for _, shape in found.layers) else ""


_FITTING: Mapping[type, Callable[[Any], str]] = {
    Plan: _mistake_in_plan,
    Confusion: _mistake_in_confusion,
    Histogram: _mistake_in_histogram,
    UnitMap: _mistake_in_map,
    DataFacts: _mistake_in_facts,
    Ladder: _mistake_in_ladder,
    NetworkFacts: _mistake_in_network,
}
