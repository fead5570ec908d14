"""What the commands that train share: their options, and the way from those to wishes. Nothing heavy is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.data import Data
    from pellucid.data.options import DataOptions
    from pellucid.training.options import TrainOptions

COMMANDLINE = click.core.ParameterSource.COMMANDLINE
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

# Options of the data, of the network and of its training; of those that were not given nothing is said.
READING = (
    *("kind", "encoding", "newlines", "tokens", "separator", "as_number", "target", "task", "drop_missing_target"),
    *("skip_bad", "skip_empty", "image_size", "colour"),
)
NETWORK = (
    *("context", "width", "depth", "n_heads", "hidden", "embedding", "order", "activation", "norm", "groups"),
    *("dropout", "positions", "form", "patch", "projection", "pool", "head", "stages", "stride", "latent"),
)
TRAINING = (
    *("optimizer", "learning_rate", "batch_size", "schedule", "warmup", "weight_decay", "clip", "momentum", "threads"),
    *("loss", "penalty", "strength", "shift"),
)

_DATA = [
    click.option(
        "--data",
        "data_option",
        metavar="DATA",
        help="Another way to name DATA; with --resume, where it is now.",
    ),
    click.option(
        "--kind",
        default="",
        help="Read DATA as list, text, pairs, table or images, whatever it looks like.",
    ),
    click.option("--encoding", default="utf-8", show_default=True, help="How the file is encoded."),
    click.option("--newlines", default="keep", show_default=True, help="keep them, or make them all unix."),
    click.option("--tokens", default="characters", show_default=True, help="characters, words, bytes or bpe."),
    click.option("--target", default="", help="Of a table: the column to predict."),
    click.option(
        "--task",
        default="",
        help="classification, regression or reconstruction; without it, by the target.",
    ),
    click.option("--sep", "separator", default="", help="Of a table, where it is no comma or tab."),
    click.option("--as-number", default="", help="Columns to read as numbers in spite of $, % and commas: a,b."),
    click.option("--drop-missing-target", is_flag=True, help="Leave rows out that have no target."),
    click.option("--image-size", type=int, default=0, help="Every image as a square of so many pixels."),
    click.option("--colour", default="", help="Of images: gray or rgb; without it, as they are."),
    click.option("--skip-bad", is_flag=True, help="Leave images out that cannot be read."),
    click.option("--skip-empty", is_flag=True, help="Leave class folders out that hold no image."),
]
_NETWORK = [
    click.option("--size", default="", help="tiny, small, medium or large; without it, by the data."),
    click.option("--context", type=int, help="How many tokens are looked back on."),
    click.option("--width", type=int, help="Of the stream that blocks add to, or of the recurrent state."),
    click.option("--depth", type=int, help="How many blocks or layers."),
    click.option("--heads", "n_heads", type=int, help="Of attention."),
    click.option("--hidden", type=int, help="Units of a hidden layer."),
    click.option("--embedding", type=int, help="Numbers that stand for a token or a category."),
    click.option("--n", "order", type=int, help="Of the neural n-gram."),
    click.option("--activation", help="tanh, relu, leaky_relu, gelu or sigmoid."),
    click.option("--norm", help="Of hidden layers: none, batch, layer, group, instance or rms."),
    click.option("--groups", type=int, help="Of group and instance norm."),
    click.option(
        "--positions",
        help="Of attention: rotary, learned, sinusoidal, alibi, relative, index or none.",
    ),
    click.option("--form", help="Of encoder and decoder: pre or post, where the norm stands."),
    click.option("--patch", type=int, help="Of the vit: pixels on a side of a patch."),
    click.option("--projection", help="Of the vit's patches: linear or conv, which is the same."),
    click.option("--pool", help="Of the cnn: average or max."),
    click.option("--head", help="Of the cnn: linear, conv or pooled."),
    click.option("--stages", type=int, help="Of the residual cnn: each halves the image and doubles the width."),
    click.option("--stride", type=int, help="Of the residual cnn's first filters."),
    click.option("--latent", type=int, help="Of the autoencoder: numbers in its narrow place."),
    click.option("--dropout", type=float, help="The share of values left out while training."),
]
_TRAINING = [
    click.option("--optimizer", help="muon, adamw or sgd."),
    click.option(
        "--learning-rate",
        "--rate",
        "--lr",
        "learning_rate",
        type=float,
        help="The highest learning rate; pellucid rate searches one.",
    ),
    click.option("--batch-size", "--batch", "batch_size", type=int, help="Examples per step."),
    click.option("--schedule", "--decay", "schedule", help="Of the rate: linear, cosine, step or constant."),
    click.option("--warmup", "--warm-up", "warmup", type=int, help="Steps over which the rate climbs."),
    click.option("--weight-decay", type=float, help="On matrices alone."),
    click.option("--clip", type=float, help="The largest norm of all gradients; 0 clips nothing."),
    click.option("--momentum", type=float, help="Of sgd."),
    click.option("--loss", help="Of tables and images: cross-entropy, bce, hinge, mse or l1."),
    click.option("--penalty", help="On the weights of a network for tables and images: l1, l2 or linf2."),
    click.option("--strength", type=float, help="Of the penalty."),
    click.option("--shift", type=int, help="Pixels by which images are moved at random."),
    click.option("--threads", type=int, help="Part of the run: another number gives other last bits."),
]

SECTIONS = {
    "The data": ("data_option", *READING),
    "The network": ("size", *NETWORK),
    "The training": TRAINING,
}


class Sectioned(click.Command):
    """A command with so many options that its help shows them under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        headings = {name: heading for heading, names in SECTIONS.items() for name in names}
        found: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *SECTIONS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and record is not None:
                found[headings.get(str(parameter.name), "Options")].append(record)
        for heading, records in found.items():
            if not records:
                continue
            with formatter.section(heading):
                formatter.write_dl(records)


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what is read and how."""
    return _with(command, _DATA)


def network_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the network and of its training."""
    return _with(command, [*_NETWORK, *_TRAINING])


def _with(command: Callable[..., Any], options: Sequence[Decorator]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def source_of(ctx: click.Context, default: str) -> str:
    """What was named as data, as an argument or as an option."""
    argument, option = ctx.params.get("data"), ctx.params.get("data_option")
    if argument and option:
        raise PellucidError("DATA is given twice, with --data and without", fix="Leave one of them out")
    return str(argument or option or default)


def training_wishes(ctx: click.Context, kind: str, model: str = "") -> TrainOptions:
    """What was asked of the network and its training; `model` is for commands that train several.

    kind: of the data; "" while it is not known, and then only what no data could mend is refused.
    """
    from pellucid.models.catalogue import default_network
    from pellucid.training.options import TrainOptions, require_network, windows_of

    name = model or str(ctx.params["model"]) or (default_network(kind).name if kind else "")
    if name:
        require_network(name, kind)
    given = {option: ctx.params[option] for option in NETWORK if ctx.params.get(option) is not None}
    _, own = windows_of(name, given)
    is_timed = ctx.get_parameter_source("minutes") is COMMANDLINE
    has_steps = ctx.get_parameter_source("steps") is COMMANDLINE
    if is_timed and has_steps:
        raise PellucidError("--minutes and --steps are both given", fix="Leave one of them out")
    if has_steps and not ctx.params["steps"]:
        raise PellucidError("steps is 0", fix="Choose at least 1, or leave it out and give --minutes")
    return TrainOptions(
        model=name,
        minutes=float(ctx.params["minutes"]),
        steps=int(ctx.params["steps"]),
        seed=int(ctx.params["seed"]),
        size=str(ctx.params["size"]),
        network=own,
        **{option: ctx.params[option] for option in TRAINING if ctx.params.get(option) is not None},
        kind=kind,
    )


def data_wishes(ctx: click.Context, model: str = "") -> DataOptions:
    """What was asked of the data."""
    from pellucid.data.options import DataOptions
    from pellucid.training.options import windows_of

    name = model or str(ctx.params["model"])
    given = ctx.params.get("context")
    context, _ = windows_of(name or "transformer", {} if given is None else {"context": given})
    asked = {option: ctx.params[option] for option in READING}
    if name == "autoencoder" and not asked["task"]:
        asked["task"] = "reconstruction"
    return DataOptions(source=source_of(ctx, default="names"), context=context, **asked)


def opened_early(ctx: click.Context, reading: DataOptions) -> Data:
    """The data, before torch is loaded: what cannot be read, or is of another kind than was asked for, is refused."""
    from pellucid.data.options import open_with

    return open_with(reading)
