"""What the commands that train share: their options, and the way from those to wishes. Nothing heavy is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.training.opening import DataWishes
    from pellucid.training.wishes import TrainingWishes

COMMANDLINE = click.core.ParameterSource.COMMANDLINE
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

# Options of the network and of its training; of those that were not given nothing is said.
NETWORK = (
    "context",
    "width",
    "depth",
    "n_heads",
    "hidden",
    "embedding",
    "order",
    "activation",
    "norm",
    "groups",
    "dropout",
    "positions",
)
TRAINING = ("optimizer", "rate", "batch", "decay", "warm_up", "weight_decay", "clip", "momentum", "threads")

_DATA = [
    click.option(
        "--data", "data_option", metavar="DATA", help="Another way to name DATA; with --resume, where it is now."
    ),
    click.option("--tokens", default="characters", show_default=True, help="characters, words, bytes or bpe."),
    click.option("--kind", default="", help="Read DATA as list or as text, whatever it looks like."),
    click.option("--encoding", default="utf-8", show_default=True, help="How the file is encoded."),
    click.option("--newlines", default="keep", show_default=True, help="keep them, or make them all unix."),
]
_NETWORK = [
    click.option("--size", default="", help="tiny, small, medium or large; without it, by the data."),
    click.option("--context", type=int, help="How many tokens are looked back on."),
    click.option("--width", type=int, help="Of the transformer's stream or the recurrent state."),
    click.option("--depth", type=int, help="How many blocks or layers."),
    click.option("--heads", "n_heads", type=int, help="Of the transformer's attention."),
    click.option("--hidden", type=int, help="Units of a hidden layer of mlp and wavenet."),
    click.option("--embedding", type=int, help="Numbers that stand for a token in mlp and wavenet."),
    click.option("--n", "order", type=int, help="Of the neural n-gram."),
    click.option("--activation", help="Of mlp: tanh, relu, leaky_relu, gelu or sigmoid."),
    click.option("--norm", help="Of mlp: none, batch, layer, group or instance."),
    click.option("--groups", type=int, help="Of mlp's group and instance norm."),
    click.option("--positions", help="Of the transformer: rotary or learned."),
    click.option("--dropout", type=float, help="The share of values left out while training."),
]
_TRAINING = [
    click.option("--optimizer", help="muon, adamw or sgd."),
    click.option("--rate", "--lr", "rate", type=float, help="The highest learning rate; pellucid rate searches one."),
    click.option("--batch", type=int, help="Items of a list, or windows of a text, in one step."),
    click.option("--decay", help="Of the rate: linear, cosine, step or constant."),
    click.option("--warm-up", type=int, help="Steps over which the rate climbs."),
    click.option("--weight-decay", type=float, help="On matrices alone."),
    click.option("--clip", type=float, help="The largest norm of all gradients; 0 clips nothing."),
    click.option("--momentum", type=float, help="Of sgd."),
    click.option("--threads", type=int, help="Part of the run: another number gives other last bits."),
]


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


def training_wishes(ctx: click.Context, model: str = "") -> TrainingWishes:
    """What was asked of the network and its training; `model` is for commands that train several."""
    from pellucid.training.wishes import TrainingWishes, require_network, windows_of

    name = model or str(ctx.params["model"])
    require_network(name)
    given = {option: ctx.params[option] for option in NETWORK if ctx.params.get(option) is not None}
    _, own = windows_of(name, given)
    is_timed = ctx.get_parameter_source("minutes") is COMMANDLINE
    has_steps = ctx.get_parameter_source("steps") is COMMANDLINE
    if is_timed and has_steps:
        raise PellucidError("--minutes and --steps are both given", fix="Leave one of them out")
    if has_steps and not ctx.params["steps"]:
        raise PellucidError("steps is 0", fix="Choose at least 1, or leave it out and give --minutes")
    return TrainingWishes(
        model=name,
        minutes=float(ctx.params["minutes"]),
        steps=int(ctx.params["steps"]),
        seed=int(ctx.params["seed"]),
        size=str(ctx.params["size"]),
        network=own,
        training={option: ctx.params[option] for option in TRAINING if ctx.params.get(option) is not None},
    )


def data_wishes(ctx: click.Context, model: str = "") -> DataWishes:
    """What was asked of the data."""
    from pellucid.models.wishes import TOKENS, require_one_of
    from pellucid.training.opening import DataWishes
    from pellucid.training.wishes import windows_of

    tokens = str(ctx.params["tokens"])
    require_one_of("kind of tokens", tokens, (*TOKENS, "bpe"))
    given = ctx.params.get("context")
    context, _ = windows_of(model or str(ctx.params["model"]), {} if given is None else {"context": given})
    return DataWishes(
        source=source_of(ctx, default="names"),
        kind=str(ctx.params["kind"]),
        encoding=str(ctx.params["encoding"]),
        newlines=str(ctx.params["newlines"]),
        tokens=tokens,
        context=context,
    )


def require_early(reading: DataWishes) -> None:
    """Open the data before torch is loaded, so that what cannot be read is refused at once."""
    from pellucid.data import open_data, require_kind

    data = open_data(reading.source, kind=reading.kind, encoding=reading.encoding, newlines=reading.newlines)
    require_kind(data, "list", "text")
