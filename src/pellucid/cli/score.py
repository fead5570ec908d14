"""`pellucid score`: how a trained network, or a model that counts, takes a given text, token by token."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from pellucid.cli.counted import encoded, fit, model_options, run_called
from pellucid.errors import PellucidError, TooLarge

if TYPE_CHECKING:
    from pathlib import Path

    from pellucid.data import Vocabulary
    from pellucid.models.counting.fitting import Fitted
    from pellucid.records import ScoredText, Surprise

MOST_SCORED = 20_000  # tokens; each is a row of the table


@click.command(
    "score",
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="""
    \b
    Examples:
      pellucid score names emma
      pellucid score names xqz --model bigram --s 0
      pellucid score first emma
      pellucid score story.txt "it was a dark night" --n 4
    """,
)
@click.argument("source", metavar="RUN|DATA")
@click.argument("text")
@model_options
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON, for machines.")
@click.pass_context
def command(ctx: click.Context, /, source: str, text: str, as_json: bool, **_: object) -> None:
    """Show the surprise of every token of TEXT, under the trained network of RUN or a count model of DATA.

    RUN is a folder that pellucid train made, or its name under runs/. DATA is a file or a set that comes with pellucid;
    a count model is fitted on its train side. The surprise of a token is -log of the probability that the model gave it
    after what stood before: in nats, and in bits. In a list the boundary that closes the item is scored as well.
    """
    if not text:
        raise PellucidError("TEXT is empty", fix="Give a text to score, such as emma")
    run = run_called(ctx, source)
    scored = _counted(ctx, source, text) if run is None else _trained(ctx, run, text)
    if as_json:
        from pellucid.figures.show import record_json

        click.echo(record_json(scored))
    else:
        from pellucid.figures.show import show

        show(scored)


def _counted(ctx: click.Context, source: str, text: str) -> ScoredText:
    """Under a model that is counted on the train side of the data."""
    from pellucid.records import ScoredText

    fitted, opened = fit(ctx, source)
    tokens, notes = _tokens(ctx, text, fitted.vocabulary)
    surprises = _surprises(fitted, [*tokens, 0] if opened.kind == "list" else tokens)
    where = ""
    if opened.kind == "list":
        sides = fitted.sides
        where = "train" if text in set(sides.train_items) else "dev" if text in set(sides.dev_items) else "new"
    n_impossible = sum(surprise.nats == math.inf for surprise in surprises)
    if n_impossible:
        notes = (*notes, f"the loss is infinite: {n_impossible} never seen after what stands before; --s 0.1 mends it")
    return ScoredText(text, fitted.facts, tuple(surprises), where, (*opened.notes, *notes))


def _trained(ctx: click.Context, run: Path, text: str) -> ScoredText:
    """Under the best network of a run. What can be refused without it, is, before torch is loaded."""
    from pellucid.training.stored import stored_run

    stored = stored_run(run)
    _, notes = _tokens(ctx, text, stored.vocabulary)

    from pellucid.training.trained import awakened

    scored = awakened(stored).score(text, unknown=str(ctx.params["unknown"]))
    return scored._replace(notes=(*notes, *scored.notes))


def _tokens(ctx: click.Context, text: str, vocabulary: Vocabulary) -> tuple[list[int], tuple[str, ...]]:
    from pellucid.errors import require_one_of
    from pellucid.models.counting.options import UNKNOWN

    require_one_of("way to treat the unknown", ctx.params["unknown"], UNKNOWN)
    tokens, notes = encoded(text, vocabulary, str(ctx.params["unknown"]), "the text")
    if not tokens:
        raise PellucidError("nothing of the text is left to score", fix="Use letters that the data have")
    if len(tokens) > MOST_SCORED:
        raise TooLarge(
            f"the text has {len(tokens):,} tokens, past the limit of {MOST_SCORED:,}", fix="Score a part of it"
        )
    return tokens, notes


def _surprises(fitted: Fitted, tokens: list[int]) -> list[Surprise]:
    """The surprise of each token after those before it; of a list they begin at the boundary."""
    import numpy as np

    from pellucid.records import Surprise

    model, names = fitted.model, fitted.vocabulary.tokens
    begun = [0, *tokens] if model.has_boundary else tokens
    scores = model.after_each(np.array(begun))[:-1]
    if not model.has_boundary:
        scores = np.concatenate([model.log_probabilities(np.zeros((1, 0), np.int64)), scores])
    found = []
    for place, (token, row) in enumerate(zip(tokens, scores, strict=True), start=int(model.has_boundary)):
        context = begun[max(0, place - model.reach) : place]
        found.append(
            Surprise(
                context="".join(names[i] for i in context),
                token=names[token],
                probability=float(np.exp(row[token])),
                nats=-float(row[token]) + 0.0,
                rank=int((row > row[token]).sum()) + 1,
                expected=names[int(row.argmax())],
            )
        )
    return found
