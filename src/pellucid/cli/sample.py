"""`pellucid sample`: new items from a trained network, or from a model that counts, and how new each of them is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from pellucid.cli import speakers
from pellucid.cli.counted import is_given, model_options, run_called
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.cli.speakers import Speaker
    from pellucid.decoding.sampling import Drawn

MOST_SAMPLES = 10_000
MOST_LENGTH = 100_000  # tokens of one sample
MOST_DRAWN = 2_000_000  # tokens of all samples together
LONGEST_ITEM = 1_000  # a list's sample without an end is cut here
FEW = 10  # samples of a list, unless another number is asked for


@click.command(
    "sample",
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="""
    \b
    Examples:
      pellucid sample names
      pellucid sample names --n 3 --prompt mar -n 5
      pellucid sample first --temperature 0.8 --top-p 0.95
      pellucid sample first --beam 4 --prompt mar
      pellucid sample story.txt --length 500 --temperature 0.8
    """,
)
@click.argument("source", metavar="RUN|DATA")
@model_options
@click.option("-n", "--count", type=int, default=FEW, help="How many samples; 10 of a list, 1 of running text.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same samples.")
@click.option("--temperature", type=float, default=1.0, show_default=True, help="0 always takes the likeliest token.")
@click.option("--top-k", type=int, help="Draw from the k likeliest tokens alone.")
@click.option("--top-p", type=float, default=1.0, help="Draw from the fewest tokens that hold this probability.")
@click.option("--beam", type=int, help="Follow this many beginnings, and show the likeliest ends; nothing is drawn.")
@click.option("--length-penalty", type=float, default=0.0, help="Of a beam: compares log-probability / length^this.")
@click.option("--prompt", default="", help="What every sample begins with.")
@click.option("--length", type=int, default=300, show_default=True, help="Of a sample of running text, in tokens.")
@click.option("--no-cache", is_flag=True, help="Of a run: read everything again for each token. Slower, the same.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON, for machines.")
@click.pass_context
def command(ctx: click.Context, /, source: str, **given: Any) -> None:
    """Draw from the trained network of RUN, or from a count model of DATA.

    RUN is a folder that pellucid train made, or its name under runs/. DATA is a file (a list with one item a line, or
    running text) or a set that comes with pellucid, such as names; a count model is fitted on its train side. Each
    sample begins at the boundary, draws one token after another and stops at the boundary. Beside it stands whether the
    data have it, the nearest training item and the longest part copied from one.
    """
    _require(ctx)
    run = run_called(ctx, source)
    prompt, unknown = given["prompt"], given["unknown"]
    if run is None:
        _refuse_idle(ctx, ("no_cache",), "for a model that counts")

    def require(is_list: bool, vocab_size: int) -> None:
        _require_fit(ctx, is_list, vocab_size)

    if run is None:
        speaker = speakers.counting(ctx, source, prompt, unknown, require)
    else:
        speaker = speakers.trained(run, prompt, unknown, require, is_cached=not given["no_cache"])
    _show(ctx, speaker, given)


def _show(ctx: click.Context, speaker: Speaker, given: dict[str, Any]) -> None:
    from pellucid.records import Samples

    notes = speaker.notes
    n_samples = given["count"] if speaker.is_list or is_given(ctx, "count") else 1
    if given["beam"]:
        drawn = _searched(speaker, given)[:n_samples]
    else:
        if given["temperature"] == 0 and n_samples > 1:
            n_samples = 1
            notes = (*notes, "temperature 0 always takes the likeliest token, so one sample stands for all")
        drawn = _drawn(speaker, n_samples, given)
    if any(sample.is_cut for sample in drawn):
        notes = (*notes, f"… marks a sample that had no end after {LONGEST_ITEM:,} tokens and was cut")
    with click.progressbar(
        drawn, label="comparing", file=sys.stderr, hidden=len(drawn) < 500 or not sys.stderr.isatty()
    ) as shown:
        samples = tuple(speaker.compare(shown))
    made = Samples(
        speaker.facts,
        given["prompt"],
        given["temperature"],
        given["seed"],
        samples,
        notes,
        given["top_k"],
        given["top_p"],
        given["beam"] or 0,
        given["length_penalty"],
    )
    if given["as_json"]:
        from pellucid.figures.show import record_json

        click.echo(record_json(made))
    else:
        from pellucid.figures.show import show

        show(made)


def _drawn(speaker: Speaker, n_samples: int, given: dict[str, Any]) -> list[Drawn]:
    from pellucid.decoding.limits import ALL
    from pellucid.decoding.sampling import NEVER, draw

    return draw(
        speaker.reading(),
        n_samples=n_samples,
        longest=LONGEST_ITEM if speaker.is_list else given["length"],
        start=speaker.start,
        stop=0 if speaker.is_list else NEVER,
        seed=given["seed"],
        temperature=given["temperature"],
        top_k=given["top_k"] or ALL,
        top_p=given["top_p"],
    )


def _searched(speaker: Speaker, given: dict[str, Any]) -> list[Drawn]:
    from pellucid.decoding.beam import beam_search
    from pellucid.decoding.sampling import NEVER

    found = beam_search(
        speaker.reading(),
        width=given["beam"],
        longest=LONGEST_ITEM if speaker.is_list else given["length"],
        start=speaker.start,
        stop=0 if speaker.is_list else NEVER,
        length_penalty=given["length_penalty"],
    )
    return [hypothesis.drawn for hypothesis in found]


def _require(ctx: click.Context) -> None:
    """Refuse what cannot be drawn, and what would change nothing, before anything is opened."""
    from pellucid.decoding import limits

    given = ctx.params
    count, length, beam = given["count"], given["length"], given["beam"]
    if not 1 <= count <= MOST_SAMPLES:
        raise PellucidError(f"--count is {count}", fix=f"Choose a number from 1 to {MOST_SAMPLES:,}")
    if not 1 <= length <= MOST_LENGTH:
        raise PellucidError(f"--length is {length}", fix=f"Choose a number from 1 to {MOST_LENGTH:,}")
    if max(count, beam or 0) * length > max(MOST_DRAWN, MOST_SAMPLES * 300):
        raise PellucidError(
            f"{max(count, beam or 0):,} samples of {length:,} tokens are too many",
            fix=f"Ask for {MOST_DRAWN:,} tokens or fewer in all",
        )
    limits.require_seed(given["seed"])
    limits.require_temperature(given["temperature"])
    limits.require_top_k(limits.ALL if given["top_k"] is None else given["top_k"])
    limits.require_top_p(given["top_p"])
    limits.require_length_penalty(given["length_penalty"])
    if beam is None:
        _refuse_idle(ctx, ("length_penalty",), "without --beam")
        if given["temperature"] == 0:
            _refuse_idle(ctx, ("top_k", "top_p"), "at temperature 0, which takes the likeliest token")
        return
    limits.require_beam(beam)
    _refuse_idle(ctx, ("seed", "temperature", "top_k", "top_p"), "with --beam, which draws nothing by chance")
    if is_given(ctx, "count") and count > beam:
        raise PellucidError(f"a beam of {beam} finds at most {beam}, and -n is {count}", fix="Ask for a wider --beam")


def _require_fit(ctx: click.Context, is_list: bool, vocab_size: int) -> None:
    """Refuse what does not fit the model, as soon as it is known what it speaks."""
    from pellucid.decoding.limits import require_top_k

    if is_list and is_given(ctx, "length"):
        raise PellucidError("--length changes nothing for a list, whose items end by themselves", fix="Leave it out")
    if ctx.params["top_k"] is not None:
        require_top_k(ctx.params["top_k"], vocab_size)


def _refuse_idle(ctx: click.Context, names: tuple[str, ...], where: str) -> None:
    for name in names:
        if is_given(ctx, name):
            raise PellucidError(f"--{name.replace('_', '-')} changes nothing {where}", fix="Leave it out")
