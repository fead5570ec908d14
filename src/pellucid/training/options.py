"""What a user may ask of a training, declared once: options, their checks, their help and Python's parameters.

Nothing heavy, so that a value that cannot be is refused before anything is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pellucid.data.kinds import KINDS
from pellucid.data.options import DataOptions
from pellucid.data.splits import SplitRequest
from pellucid.decoding.options import require_seed
from pellucid.errors import PellucidError, did_you_mean, quoted, require_one_of
from pellucid.models.catalogue import NETWORKS, OPENED, default_network, find_network, network_names, networks_for
from pellucid.models.counting import COUNT_MODELS, CountOptions
from pellucid.models.settings import SIZES, require_share
from pellucid.options import Option, check_options, flag_of, given_options, option, options_of, types_of
from pellucid.records import Replan
from pellucid.training.optimizers import OPTIMIZERS, SCHEDULES

Setting = int | float | str

LOSSES = ("cross-entropy", "bce", "hinge", "mse", "l1", "huber")  # as layers/losses.py has them
STARTS = ("counts", "scratch")
COUNTING = ("smoothing", "s", "discount")  # options of a model that counts; its n is that of every n-gram
CLASS_WEIGHTS = ("none", "balanced")
PENALTIES = ("l1", "l2", "linf2")
DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")
MOST_STEPS = 1_000_000_000
MOST_RATE = 1e3
EXAMPLES = ("table", "images")  # kinds of data that a loss may be chosen for
BYTES_OF_A_WEIGHT = 16  # the weight, its gradient and two numbers of the optimizer, of single precision
CHANGE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})(?::(clock|dev))?")  # of the steps on the way, as Replan.spelled
_NOT_OF_TRAINING = ("model", "minutes", "steps", "seed", "size", "replan")


@dataclass(frozen=True)
class TrainOptions:
    """A network and how it is trained. What is None follows from the network's recipe and the data.

    >>> TrainOptions(network={"width": 30, "n_heads": 4})
    Traceback (most recent call last):
    pellucid.errors.PellucidError: width 30 cannot be shared equally by 4 heads. The nearest that can is 32.
    """

    model: str = option(
        "",
        "Network to train, or a model that counts; by default a network that suits the data",
        noun="model",
        choices=(*network_names(), *COUNT_MODELS),
        is_common=True,
    )
    minutes: float = option(
        2.0,
        "Time budget in minutes, everything included.",
        noun="the time budget in minutes",
        minimum=0,
        is_minimum_open=True,
        maximum=7 * 24 * 60,
        example="2",
        is_common=True,
    )
    steps: int = option(
        0,
        "Number of optimizer steps, instead of a time budget; repeatable bit by bit.",
        noun="the number of steps",
        maximum=MOST_STEPS,
        is_common=True,
    )
    seed: int = option(1, "Random seed.", minimum=0, maximum=2**64 - 1, is_common=True)
    size: str = option("", "Size of the network; by default it follows from the data", choices=SIZES, is_common=True)
    optimizer: str | None = option(None, "Optimizer", choices=tuple(OPTIMIZERS), is_common=True)
    learning_rate: float | None = option(
        None,
        "Peak learning rate; chosen by the plan if not given.",
        minimum=0,
        is_minimum_open=True,
        maximum=MOST_RATE,
        example="0.003",
        aliases=("rate", "lr"),
        is_common=True,
    )
    matrix_learning_rate: float | None = option(
        None, "Peak learning rate of Muon.", minimum=0, is_minimum_open=True, maximum=MOST_RATE, example="0.02"
    )
    batch_size: int | None = option(
        None, "Examples (items, text windows, pairs, rows or images) per step.", aliases=("batch",), is_common=True
    )
    schedule: str | None = option(None, "Learning rate schedule", choices=tuple(SCHEDULES), aliases=("decay",))
    warmup: int | None = option(
        None, "Steps of linear learning rate warmup.", minimum=0, maximum=MOST_STEPS, aliases=("warm-up",)
    )
    weight_decay: float | None = option(None, "Weight decay of weight matrices.", minimum=0, maximum=10, example="0.01")
    clip: float | None = option(None, "Maximum gradient norm; 0 clips nothing.", minimum=0, maximum=1e9, example="1")
    momentum: float | None = option(None, "Momentum of SGD.", minimum=0, maximum=0.9999, example="0.9")
    loss: str | None = option(None, "Loss function", choices=LOSSES, kinds=EXAMPLES)
    penalty: str | None = option(None, "Penalty (regularisation) of the weights", choices=PENALTIES, kinds=EXAMPLES)
    strength: float | None = option(
        None, "Factor of the penalty.", minimum=0, maximum=1e6, example="0.001", kinds=EXAMPLES
    )
    shift: int | None = option(
        None, "Random shift (augmentation) of training images, in pixels.", minimum=0, maximum=64, kinds=("images",)
    )
    start: str | None = option(
        None,
        "Whether the network learns on top of what was counted (n-grams), or from nothing",
        noun="way to start",
        choices=STARTS,
        kinds=("list", "text"),
        is_common=True,
    )
    from_run: str = option(
        "",
        "Run whose network and weights to begin from (fine-tuning); its vocabulary reads the data.",
        flag="from",
        value_name="RUN",
        kinds=("list", "text"),
        is_common=True,
    )
    class_weights: str | None = option(
        None,
        "Weights of the classes in the loss; balanced: each counts the same, however rare it is",
        noun="way to weigh classes",
        choices=CLASS_WEIGHTS,
        kinds=EXAMPLES,
    )
    folds: int | None = option(
        None,
        "Parts of the cross-validation after training; 0 is none. By default 5, of tables below 2,000 rows if a time "
        "budget has room for them.",
        noun="the number of folds",
        minimum=0,
        maximum=20,
        kinds=("table",),
    )
    threads: int | None = option(
        None,
        "CPU threads; part of the run: another number gives other last bits.",
        noun="the number of threads",
        maximum=1024,
    )
    device: str = option("auto", "Device to train on; auto is the best there is", choices=DEVICES)
    precision: str | None = option(
        None,
        "Precision of matrix products; auto takes bf16 where trial steps are faster with it. By default fp32 on a CPU, "
        "else auto",
        choices=PRECISIONS,
    )
    compile: bool = option(False, "Compile the network (torch.compile), if trial steps say that it saves time.")
    accumulate: int | None = option(
        None,
        "Pieces that a batch is worked on in, one after another, to take less memory.",
        noun="the number of pieces of a batch",
        minimum=1,
        maximum=1024,
    )
    shard: bool = option(
        False, "Divide weights, gradients and optimizer over the processes (FSDP), for a network too large for one."
    )
    save_every: int | None = option(
        None, "Steps between two checkpoints.", noun="the distance of checkpoints in steps", maximum=MOST_STEPS
    )
    replan: str | None = option(
        None,
        "Changes of the steps on the way, as STEP:STEPS, with commas between: what makes a run again that followed the "
        "clock, or dev where it says STEP:STEPS:dev.",
        noun="the changes of steps on the way",
        example="340:500",
    )
    network: Mapping[str, Setting] = field(default_factory=dict)  # what is asked of the network's own config
    kind: str = "list"  # of the data; "": not known yet, so that only what no data could mend is refused

    def __post_init__(self) -> None:
        if not self.model and self.kind:
            object.__setattr__(self, "model", default_network(self.kind).name)
        if self.model:
            require_network(self.model, self.kind)
        require_seed(self.seed)
        # What others made is no choice but for whoever begins from it.
        check_options(self, without=("model",) if self.model == OPENED.name else ())
        if self.replans and not self.steps:
            raise PellucidError(
                "{replan} is given without {steps}", fix="Give both", options={"replan": None, "steps": None}
            )
        self._require_memory()
        self._require_origin()
        for name, value in self.network.items():
            self._require_setting(name, value)
        heads = self.network.get("n_heads")
        if "width" in self.network and isinstance(heads, int):
            require_share("width", int(self.network["width"]), heads, of="heads")

    @property
    def replans(self) -> tuple[Replan, ...]:
        """The changes of steps that were asked for.

        >>> TrainOptions(steps=900, replan="340:500").replans
        (Replan(step=340, steps=500, why='clock'),)
        """
        found, steps = list[Replan](), self.steps
        for change in self.replan.split(",") if self.replan else ():
            asked = CHANGE.fullmatch(change)
            found += [Replan(int(asked[1]), int(asked[2]), asked[3] or "clock")] if asked else []
            if not asked or not 0 < found[-1].step < min(steps or MOST_STEPS, found[-1].steps):
                raise PellucidError(
                    f"{{replan}} is {quoted(self.replan or '')}, where each change is a step that there is, and more "
                    "steps than were made by then",
                    fix="Write it as {replan}",
                    options={"replan": "340:500"},
                )
            steps = found[-1].steps
        return tuple(found)

    @property
    def training(self) -> Mapping[str, Any]:
        """What was asked of the training itself and not left to the plan."""
        return {name: value for name, value in given_options(self).items() if name not in _NOT_OF_TRAINING}

    def require_effective(self) -> None:
        """Refuse what is asked of another optimizer, or of a penalty that there is not: it would change nothing.

        >>> TrainOptions(model="mlp", optimizer="adamw", momentum=0.5).require_effective()
        Traceback (most recent call last):
        pellucid.errors.PellucidError: momentum changes nothing for adamw. Leave it out, or choose optimizer='sgd'.
        """
        optimizer = self.optimizer or find_network(self.model, self.kind).recipe.optimizer
        for name, one in (("momentum", "sgd"), ("matrix_learning_rate", "muon")):
            if getattr(self, name) is not None and optimizer != one:
                raise PellucidError(
                    f"{{{name}}} changes nothing for {optimizer}",
                    fix="Leave it out, or choose {optimizer}",
                    options={name: None, "optimizer": one},
                )
        if self.strength is not None and self.penalty is None:
            raise PellucidError(
                "{strength} changes nothing without {penalty}",
                fix="Leave it out, or add {penalty}",
                options={"strength": None, "penalty": None},
            )

    def _require_setting(self, name: str, value: Setting) -> None:
        """Refuse a setting that the network does not have, or a value that it cannot have."""
        settings = network_settings()
        if name not in settings:
            raise PellucidError(f"there is no option called {quoted(name)}", fix=did_you_mean(name, all_options()))
        cards = [card for card in NETWORKS if self.kind in ("", *card.kinds) and name in options_of(card.config)]
        having = list(dict.fromkeys(card.name for card in cards))
        if self.model not in ("", *having) or not having:
            raise PellucidError(
                f"{{{name}}} changes nothing for {self.model or KINDS[self.kind].noun}",
                fix=f"Leave it out, or choose {' or '.join(having)}" if having else "Leave it out",
                options={name: None},
            )
        declared, type_ = settings[name]
        declared.check(declared.noun or flag_of(name, declared), value, type_)

    def _require_origin(self) -> None:
        """Refuse what would make another network of the one to begin from, and one of others without its weights."""
        if self.model == OPENED.name and not self.from_run:
            raise PellucidError(
                f"{OPENED.name} is a model that others made, and is not trained from nothing",
                fix="Open one with pellucid open FOLDER, and begin {from_run}",
                options={"from_run": "RUN"},
            )
        asked = [
            *(name for name in self.network if name != "dropout"),
            *(name for name in ("size", "start") if getattr(self, name)),
        ]
        if self.from_run and asked:
            raise PellucidError(
                f"a network that begins from a run is that run's, so {{{asked[0]}}} cannot change it",
                fix="Leave it out, or train a new one",
                options={asked[0]: None},
            )

    def _require_memory(self) -> None:
        """Refuse what no memory of this machine could hold, by the size of its matrices alone."""
        width = max(float(self.network.get(name, 0)) for name in ("width", "hidden", "embedding"))
        depth = float(self.network.get("depth", 1))
        gigabytes = 12 * depth * width**2 * BYTES_OF_A_WEIGHT / 1e9
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
        if gigabytes > available:
            raise PellucidError(
                f"matrices of {width:,.0f} by {width:,.0f} need about {gigabytes:,.0f} GB to train, and this machine "
                f"has {available:,.0f}",
                fix="Choose a smaller width or depth",
            )


SPACINGS = ("exponential", "linear")
RATE_RULES = ("middle", "steepest", "valley", "flattest")


@dataclass(frozen=True)
class RateOptions:
    """Which learning rates a search tries, and how an answer is read from their losses.

    >>> RateOptions(lowest=0.0)
    Traceback (most recent call last):
    pellucid.errors.PellucidError: rates that are each a factor above the one before cannot begin at 0. Choose lowest
    above 0, or spacing='linear'.
    """

    lowest: float | None = option(
        None,
        "Lowest learning rate of the search; by default 1e-6, or 0 in linear steps.",
        minimum=0,
        maximum=MOST_RATE / 10,
        example="0.001",
    )
    highest: float | None = option(
        None,
        "Highest learning rate; by default 10, or 1 in linear steps, and from there on until the loss turns.",
        minimum=0,
        is_minimum_open=True,
        maximum=MOST_RATE,
        example="1",
    )
    steps: int = option(
        100, "Number of rates, with one step at each.", noun="the number of steps", minimum=10, maximum=100_000
    )
    spacing: str = option(
        "exponential",
        "Steps of the rate; exponential ones are a factor apart",
        noun="spacing of rates",
        choices=SPACINGS,
    )
    rule: str = option(
        "middle",
        "Rule that reads the answer; middle lies between steepest and lowest, flattest is where the loss changes least "
        "with the rate",
        noun="rule for the learning rate",
        choices=RATE_RULES,
    )
    percentile: float = option(
        10.0,
        "Percentile of the slopes, up to which they count as the steepest, or as the flattest.",
        minimum=0,
        is_minimum_open=True,
        maximum=50,
        example="5",
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.lowest == 0 and self.spacing == "exponential":
            raise PellucidError(
                "rates that are each a factor above the one before cannot begin at 0",
                fix="Choose {lowest} above 0, or {spacing}",
                options={"lowest": None, "spacing": "linear"},
            )
        if self.lowest is not None and self.highest is not None and self.lowest >= self.highest:
            raise PellucidError(
                f"{{lowest}} is {self.lowest:g} and {{highest}} {self.highest:g}",
                fix="Choose a lower and a higher one",
                options={"lowest": None, "highest": None},
            )


def network_settings() -> dict[str, tuple[Option, type]]:
    """Every setting of any network by its name, with its type. One name means one thing in all configs."""
    return {
        name: (declared, types_of(card.config)[name])
        for card in NETWORKS
        for name, declared in options_of(card.config).items()
    }


def all_options() -> dict[str, Option]:
    """Everything that may be asked of data, of a training and of its network, by name."""
    settings = {name: declared for name, (declared, _) in network_settings().items()}
    counting = {name: options_of(CountOptions)[name] for name in COUNTING}
    return {**options_of(DataOptions), **options_of(TrainOptions), **settings, **counting}


def flag_called(name: str) -> str:
    """How an option of a training, of its data or of its network is spelled on the command line, without its dashes.

    >>> flag_called("n_heads"), flag_called("separator"), flag_called("weight_decay")
    ('heads', 'sep', 'weight-decay')
    """
    declared = {**options_of(SplitRequest), **all_options()}.get(name)
    return flag_of(name, declared) if declared else name.replace("_", "-")


def windows_of(model: str, network: Mapping[str, Setting]) -> tuple[int, dict[str, Setting]]:
    """The context of the text's windows, 0 for the usual one, and the settings that the network itself listens to.

    >>> windows_of("gru", {"context": 32, "width": 64}), windows_of("mlp", {"context": 4})
    ((32, {'width': 64}), (0, {'context': 4}))
    """
    card = networks_for("list").get(model)
    reads_windows = card is not None and card.reads_windows
    if "context" in network and reads_windows:
        settings = network_settings()["context"]
        settings[0].check("context", network["context"], settings[1])
    context = int(network.get("context", 0)) if reads_windows else 0
    has_own = card is not None and "context" in options_of(card.config)
    own = {name: value for name, value in network.items() if name != "context" or has_own}
    return context, own


def require_network(name: str, kind: str = "list") -> None:
    """Refuse a network that there is none of for this kind of data; "" is any kind, before the data are known."""
    if name in COUNT_MODELS:
        raise PellucidError(
            f"{name} only counts and is no network: it has no learning rate, and stands on every ladder already",
            fix=f"Make a run of it with pellucid train --model {name}",
        )
    if kind:
        find_network(name, kind)
    elif name != OPENED.name:
        require_one_of("model", name, (*network_names(), *COUNT_MODELS))
