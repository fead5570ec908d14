"""A model that can go on from a prompt, whether it only counts or was trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pellucid.cli.counted import encoded, fit

if TYPE_CHECKING:
    from pellucid.decoding.reading import Reading
    from pellucid.decoding.sampling import Drawn
    from pellucid.models.counting.fitting import Fitted
    from pellucid.records import ModelFacts, Sample, TrainedFacts

LONGEST_PROMPT = 1_000  # tokens that a model that counts is given
MOST_SEARCHED = 20_000_000  # tokens of running text in which copies are looked for

Require = Callable[[bool, int], None]  # whether it is a list, and how many tokens there are; raises what cannot be
Compare = Callable[[Iterable["Drawn"]], Iterable["Sample"]]


@dataclass(frozen=True)
class Speaker:
    """What `sample` needs of a model."""

    facts: ModelFacts | TrainedFacts
    is_list: bool
    reading: Callable[[], Reading]
    start: list[int]
    compare: Compare  # makes samples of what was drawn
    notes: tuple[str, ...]


def counting(ctx: click.Context, source: str, prompt: str, unknown: str, require: Require) -> Speaker:
    """A model counted on the train side of the data."""
    from pellucid.decoding.novelty import Known
    from pellucid.decoding.reading import FromContexts
    from pellucid.decoding.samples import items_of, texts_of

    fitted, opened = fit(ctx, source)
    is_list = opened.kind == "list"
    require(is_list, len(fitted.vocabulary))
    start, notes = encoded(prompt, fitted.vocabulary, unknown, "the prompt")
    start, note = last_of(start, LONGEST_PROMPT)

    def compare(drawn: Iterable[Drawn]) -> list[Sample]:
        decode = fitted.vocabulary.decode
        if is_list:
            return items_of(drawn, decode, start, Known(fitted.sides.train_items, fitted.sides.dev_items))
        return texts_of(drawn, decode, start, _train_text(fitted))

    return Speaker(
        facts=fitted.facts,
        is_list=is_list,
        reading=lambda: FromContexts(fitted.model.log_probabilities),
        start=[0, *start] if is_list else start,
        compare=compare,
        notes=(*opened.notes, *notes, *note),
    )


def trained(run: Path, prompt: str, unknown: str, require: Require, *, is_cached: bool) -> Speaker:
    """The best network of a run. What can be refused without it, is, before torch is loaded."""
    from pellucid.errors import require_one_of
    from pellucid.models.counting.options import UNKNOWN
    from pellucid.training.stored import stored_run

    require_one_of("way to treat the unknown", unknown, UNKNOWN)
    stored = stored_run(run)
    require(stored.is_list, len(stored.vocabulary))
    start, notes = encoded(prompt, stored.vocabulary, unknown, "the prompt")

    from pellucid.training.trained import awakened

    network = awakened(stored)
    start, note = last_of(start, network.longest_prompt)
    seen = (stored.seen.note,) if stored.seen.note else ()
    return Speaker(
        facts=network.facts,
        is_list=stored.is_list,
        reading=lambda: network.reading(is_cached=is_cached),
        start=network.start(start),
        compare=lambda drawn: network.as_samples(drawn, start),
        notes=(*notes, *note, *seen),
    )


def last_of(tokens: list[int], most: int) -> tuple[list[int], tuple[str, ...]]:
    """The last tokens of a prompt, as many as are read, and a note where that is not all."""
    if len(tokens) <= most:
        return tokens, ()
    return tokens[-most:], (f"the prompt has {len(tokens):,} tokens; the last {most:,} were used",)


def _train_text(fitted: Fitted) -> str:
    tokens = fitted.sides.train.tokens
    return fitted.vocabulary.decode(tokens.tolist()) if len(tokens) <= MOST_SEARCHED else ""
