"""`pellucid sample`: fit a count model on the train side, draw from it, and say how new each sample is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pellucid.cli.counted import encoded, fit, model_options
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.decoding.sampling import Drawn
    from pellucid.models.fitting import Fitted
    from pellucid.records import Sample

MOST_SAMPLES = 10_000
MOST_LENGTH = 100_000  # tokens of one sample
MOST_DRAWN = 2_000_000  # tokens of all samples together
LONGEST_ITEM = 1_000  # a list's sample without an end is cut here
LONGEST_PROMPT = 1_000
MOST_SEARCHED = 20_000_000  # characters of running text in which copies are looked for


@click.command(
    "sample",
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="""
    \b
    Examples:
      pellucid sample names
      pellucid sample names --n 3 --prompt mar -n 5
      pellucid sample names --model bigram --seed 7
      pellucid sample story.txt --length 500 --temperature 0.8
    """,
)
@click.argument("data")
@model_options
@click.option("-n", "--count", type=int, default=10, help="How many samples; 10 of a list, 1 of running text.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same samples.")
@click.option("--temperature", type=float, default=1.0, show_default=True, help="0 always takes the likeliest token.")
@click.option("--prompt", default="", help="What every sample begins with.")
@click.option("--length", type=int, default=300, show_default=True, help="Of a sample of running text, in tokens.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON, for machines.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    data: str,
    count: int,
    seed: int,
    temperature: float,
    prompt: str,
    length: int,
    as_json: bool,
    **_: object,
) -> None:
    """Fit a count model on the train side of DATA and draw from it.

    DATA is a file (a list with one item a line, or running text) or a set that comes with pellucid, such as names. Each
    sample begins at the boundary, draws one token after another and stops at the boundary. Beside it stands whether the
    data have it, the nearest training item and the longest part copied from one.
    """
    _require(count, length, seed, temperature)
    fitted, opened = fit(ctx, data)

    from pellucid.decoding.sampling import NEVER, draw
    from pellucid.records import Samples

    is_list = opened.kind == "list"
    if ctx.get_parameter_source("length") is click.core.ParameterSource.COMMANDLINE and is_list:
        raise PellucidError(
            "--length changes nothing for a list, whose items end by themselves", fix="Leave it out, or add --kind text"
        )
    is_count_given = ctx.get_parameter_source("count") is click.core.ParameterSource.COMMANDLINE
    n_samples = count if is_list or is_count_given else 1
    start, notes = _start(fitted, prompt, str(ctx.params["unknown"]))
    if temperature == 0 and n_samples > 1:
        n_samples = 1
        notes = (*notes, "temperature 0 always takes the likeliest token, so one sample stands for all")
    drawn = draw(
        fitted.model.log_probabilities,
        n_samples=n_samples,
        longest=LONGEST_ITEM if is_list else length,
        start=[0, *start] if is_list else start,
        stop=0 if is_list else NEVER,
        seed=seed,
        temperature=temperature,
    )
    if any(sample.is_cut for sample in drawn):
        notes = (*notes, f"… marks a sample that had no end after {LONGEST_ITEM:,} tokens and was cut")
    samples = _items(fitted, drawn, start) if is_list else _texts(fitted, drawn, start)
    made = Samples(fitted.facts, prompt, temperature, seed, tuple(samples), (*opened.notes, *notes))
    if as_json:
        from pellucid.figures.samples import samples_json

        click.echo(samples_json(made))
    else:
        from pellucid.figures.samples import show_samples

        show_samples(made)


def _require(count: int, length: int, seed: int, temperature: float) -> None:
    if not 1 <= count <= MOST_SAMPLES:
        raise PellucidError(f"--count is {count}", fix=f"Choose a number from 1 to {MOST_SAMPLES:,}")
    if not 1 <= length <= MOST_LENGTH:
        raise PellucidError(f"--length is {length}", fix=f"Choose a number from 1 to {MOST_LENGTH:,}")
    if count * length > max(MOST_DRAWN, MOST_SAMPLES * 300):
        raise PellucidError(
            f"{count:,} samples of {length:,} tokens are too many", fix=f"Ask for {MOST_DRAWN:,} tokens or fewer in all"
        )
    from pellucid.decoding.limits import require_seed, require_temperature

    require_seed(seed)
    require_temperature(temperature)


def _start(fitted: Fitted, prompt: str, unknown: str) -> tuple[list[int], tuple[str, ...]]:
    """The prompt's tokens, the last ones if they are very many, and notes on both."""
    start, notes = encoded(prompt, fitted.vocabulary, unknown, "the prompt")
    if len(start) > LONGEST_PROMPT:
        note = f"the prompt has {len(start):,} tokens; the last {LONGEST_PROMPT:,} were used"
        return start[-LONGEST_PROMPT:], (*notes, note)
    return start, notes


def _items(fitted: Fitted, drawn: list[Drawn], start: list[int]) -> list[Sample]:
    """Samples of a list, each compared with every item of train and dev."""
    from pellucid.decoding.novelty import Known
    from pellucid.records import Sample

    known = Known(fitted.sides.train_items, fitted.sides.dev_items)
    found = []
    with click.progressbar(
        drawn, label="comparing", file=sys.stderr, hidden=len(drawn) < 500 or not sys.stderr.isatty()
    ) as shown:
        for sample in shown:
            text = fitted.vocabulary.decode([*start, *sample.tokens])
            new = known.novelty(text)
            n_drawn = len(sample.tokens) + (not sample.is_cut)
            found.append(
                Sample(
                    text,
                    -sample.log_probability,
                    n_drawn,
                    new.where,
                    new.nearest,
                    new.distance,
                    new.copied,
                    sample.is_cut,
                )
            )
    return found


def _texts(fitted: Fitted, drawn: list[Drawn], start: list[int]) -> list[Sample]:
    """Samples of running text, and the longest part of each that stands in train."""
    from pellucid.decoding.novelty import longest_copied
    from pellucid.records import Sample

    vocabulary, tokens = fitted.vocabulary, fitted.sides.train.tokens
    source = vocabulary.decode(tokens.tolist()) if len(tokens) <= MOST_SEARCHED else ""
    found = []
    for sample in drawn:
        text = vocabulary.decode(list(sample.tokens))
        copied = longest_copied(text, source) if len(text) * len(source) <= 1000 * MOST_SEARCHED else ""
        whole = vocabulary.decode([*start, *sample.tokens])
        found.append(Sample(whole, -sample.log_probability, len(sample.tokens), "", "", 0, copied))
    return found
