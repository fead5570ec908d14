"""What the commands on count models share: their options, and the way from those to a fitted model."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import PellucidError, nearest, quoted

if TYPE_CHECKING:
    from pellucid.data import ListData, TextData, Vocabulary
    from pellucid.models.counting.fitting import Fitted

_ONLY_FOR = {  # option: the models, or the smoothings of an n-gram, that listen to it
    "n": ("ngram",),
    "smoothing": ("ngram",),
    "s": ("unigram", "bigram", "add"),
    "discount": ("kneser-ney",),
}

# What only a model that counts listens to.
_COUNTING = ("model", "n", "smoothing", "s", "discount", "tokens", "kind", "encoding")

_OPTIONS = [
    click.option("--model", default="ngram", show_default=True, help="uniform, unigram, bigram or ngram."),
    click.option("--n", "n", default="auto", show_default=True, help="Of the n-gram; auto is the best on dev."),
    click.option(
        "--smoothing", default="kneser-ney", show_default=True, help="kneser-ney, witten-bell, add or auto (on dev)."
    ),
    click.option("--s", type=float, default=1.0, show_default=True, help="Added to every count; 0 adds nothing."),
    click.option("--discount", type=float, default=0.0, help="One for all counts; without it they are estimated."),
    click.option("--tokens", default="characters", show_default=True, help="characters, words or bytes."),
    click.option("--kind", default="", help="Read DATA as list or as text, whatever it looks like."),
    click.option("--encoding", default="utf-8", show_default=True, help="How the file is encoded."),
    click.option(
        "--unknown", default="error", show_default=True, help="Of what the data never have: error, or skip it."
    ),
]


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose a model and how its data are read."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run_called(ctx: click.Context, word: str) -> Path | None:
    """The run of that name, or None for data. A run knows its model and its data, so that what chooses them is refused.

    Where a run and data have one name, the run is meant unless a model that counts was asked for.
    """
    from pellucid.runs import find_run, is_run

    given = next((name for name in _COUNTING if is_given(ctx, name)), "")
    if not is_run(word):
        _require_some(word)
        return None
    if not given:
        return find_run(word)
    if is_data(word):
        return None
    raise PellucidError(
        f"--{given} changes nothing for the run {quoted(word)}", fix="Leave it out: a run knows its model and its data"
    )


def is_given(ctx: click.Context, name: str) -> bool:
    """Whether an option stood on the command line."""
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def is_data(word: str) -> bool:
    """Whether there are data of that name, whatever they are."""
    from pellucid.data import datasets

    return word in datasets() or os.path.isfile(word)


def _require_some(word: str) -> None:
    """Refuse what is neither a run nor a file but very like a run's name. What else is missing, opening it says."""
    from pellucid.runs import find_run, holds_run

    if os.path.lexists(word) or is_data(word) or not os.path.isdir("runs"):
        return
    name = Path(word).name
    if os.path.dirname(word) == "runs" or nearest(name, [run.name for run in Path("runs").iterdir() if holds_run(run)]):
        find_run(word)


def fit(ctx: click.Context, source: str) -> tuple[Fitted, ListData | TextData]:
    """Check the options, open the data, and fit on the train side. What can be refused early, is."""
    from pellucid.errors import require_one_of
    from pellucid.models.counting.options import UNKNOWN, CountOptions

    given = ctx.params
    options = CountOptions(**{name: given[name] for name in ("model", "n", "smoothing", "s", "discount", "tokens")})
    require_one_of("way to treat the unknown", given["unknown"], UNKNOWN)
    _require_used(ctx, options.model, options.smoothing)

    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ListData, TextData

    data = open_data(source, kind=given["kind"], encoding=given["encoding"])
    require_kind(data, "list", "text")
    assert isinstance(data, ListData | TextData)

    from pellucid.models.counting.fitting import fitted

    return fitted(data, options), data


def encoded(text: str, vocabulary: Vocabulary, unknown: str, noun: str) -> tuple[list[int], tuple[str, ...]]:
    """The tokens of a text, and a note on what was skipped; unless told to skip, what is unknown is named."""
    if vocabulary.kind == "characters":
        known = set(vocabulary.tokens[int(vocabulary.has_boundary) :])
        strange = [(place, letter) for place, letter in enumerate(text, start=1) if letter not in known]
        if strange and unknown == "error":
            shown = ", ".join(f"{quoted(letter)} (character {place})" for place, letter in strange[:3])
            more = f" and {len(strange) - 3:,} more" if len(strange) > 3 else ""
            never = "were" if len(strange) > 1 else "was"
            raise PellucidError(
                f"{shown}{more} of {noun} {never} never seen in the data",
                fix="Use --unknown skip to leave out what is unknown",
            )
        if strange:
            skipped = ", ".join(dict.fromkeys(quoted(letter) for _, letter in strange[:10]))
            return vocabulary.encode(text, unknown), (f"{noun}: {skipped} left out, never seen in the data",)
    return vocabulary.encode(text, unknown), ()


def _require_used(ctx: click.Context, model: str, smoothing: str) -> None:
    """Refuse an option that was given and would change nothing."""
    listening = {model, smoothing} if model == "ngram" else {model}
    for option, listeners in _ONLY_FOR.items():
        if is_given(ctx, option) and not listening & set(listeners):
            what = f"{model} with {smoothing}" if model == "ngram" else model
            raise PellucidError(
                f"--{option} changes nothing for {what}", fix=f"Leave it out, or choose {' or '.join(listeners)}"
            )
