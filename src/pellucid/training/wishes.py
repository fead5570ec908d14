"""What a user may ask of a training. Nothing heavy, so that a bad wish is refused before anything is read."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pellucid.decoding.limits import require_seed
from pellucid.errors import PellucidError, require_one_of
from pellucid.models.catalogue import compared_networks, default_network, find_network, network_names, networks_for
from pellucid.models.settings import SETTINGS as DECLARED
from pellucid.models.settings import SIZES, require_share
from pellucid.models.wishes import MODELS
from pellucid.options import options_of, require_whole

Wish = int | float | str

OPTIMIZERS = ("muon", "adamw", "sgd")
DECAYS = ("linear", "cosine", "step", "constant")
LOSSES = ("cross-entropy", "bce", "hinge", "squared", "absolute")  # as layers/losses.py has them
PENALTIES = ("l1", "l2", "linf2")
LONGEST_MINUTES = 7 * 24 * 60
MOST_STEPS = 1_000_000_000
MOST_RATE = 1e3
BYTES_OF_A_WEIGHT = 16  # the weight, its gradient and two numbers of the optimizer, of single precision

# The settings that each network has, by what it reads.
SETTINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        family: {name: tuple(options_of(card.config)) for name, card in networks_for(kind).items()}
        for family, kind in {"sequences": "list", "pairs": "pairs", "examples": "images"}.items()
    }
)
FAMILIES = {"list": "sequences", "text": "sequences", "pairs": "pairs", "table": "examples", "images": "examples"}
NETWORKS_OF: Mapping[str, tuple[str, ...]] = {kind: tuple(networks_for(kind)) for kind in FAMILIES}
COMPARED: Mapping[str, tuple[str, ...]] = {kind: compared_networks(kind) for kind in FAMILIES}
USUAL = {kind: default_network(kind).name for kind in FAMILIES}
READS_WINDOWS = tuple(name for name, card in networks_for("list").items() if card.reads_windows)
WORDS = {"n_heads": "heads"}  # settings whose option has another name


def windows_of(model: str, network: Mapping[str, Wish]) -> tuple[int, dict[str, Wish]]:
    """The context of the text's windows, 0 for the usual one, and the settings that the network itself listens to.

    >>> windows_of("gru", {"context": 32, "width": 64}), windows_of("mlp", {"context": 4})
    ((32, {'width': 64}), (0, {'context': 4}))
    """
    context = int(network.get("context", 0)) if model in READS_WINDOWS else 0
    if "context" in network and context != network["context"] and model in READS_WINDOWS:
        raise PellucidError(f"context is {network['context']}", fix="Choose a whole number, such as 64")
    has_own = "context" in SETTINGS["sequences"].get(model, ())
    own = {name: wish for name, wish in network.items() if name != "context" or has_own}
    return context, own


def require_network(name: str, kind: str = "list") -> None:
    """Refuse a network that there is none of for this kind of data; "" is any kind, before the data are known.

    >>> require_network("cnn", "list")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: cnn reads images, and the data are a list. Choose one of neural-ngram, mlp, wavenet,
    rnn, gru, lstm, transformer.
    """
    if name in MODELS:
        raise PellucidError(
            f"{name} only counts, so there is nothing to train", fix=f"Try pellucid sample names --model {name}"
        )
    if kind:
        find_network(name, kind)
    else:
        require_one_of("network", name, network_names())


def require_task(task: str) -> None:
    """Refuse what nobody does with a table."""
    if task:
        require_one_of("task", task, TASKS)


TASKS = ("classification", "regression", "reconstruction")


@dataclass(frozen=True)
class TrainingWishes:
    """A network and how it is to be trained. `network` and `training` hold what was asked for and nothing else.

    >>> TrainingWishes(network={"width": 30, "n_heads": 4})
    Traceback (most recent call last):
    pellucid.errors.PellucidError: width 30 cannot be shared equally by 4 heads. The nearest that can is 32.
    """

    model: str = "transformer"
    minutes: float = 2.0
    steps: int = 0  # 0: as many as the minutes allow
    seed: int = 1
    size: str = ""  # "": by the data
    network: Mapping[str, Wish] = field(default_factory=dict)
    training: Mapping[str, Wish] = field(default_factory=dict)
    kind: str = "list"  # of the data; "": not known yet, so that only what no data could mend is refused

    def __post_init__(self) -> None:
        if self.model or self.kind:
            require_network(self.model, self.kind)
        require_seed(self.seed)
        if self.size:
            require_one_of("size", self.size, SIZES)
        if not (math.isfinite(self.minutes) and 0 < self.minutes <= LONGEST_MINUTES):
            raise PellucidError(f"minutes is {self.minutes:g}", fix="Choose a number above 0, such as 2")
        if self.steps:
            require_whole("steps", self.steps, most=MOST_STEPS)
        self._require_memory()
        for name, value in self.network.items():
            self._require_setting(name, value)
        for name, value in self.training.items():
            _TRAINING[name](value)
        heads = self.network.get("n_heads")
        if "width" in self.network and isinstance(heads, int):
            require_share("width", int(self.network["width"]), heads, of="heads")

    def _require_setting(self, name: str, value: Wish) -> None:
        word = WORDS.get(name, name)
        families = [SETTINGS[FAMILIES[self.kind]]] if self.kind else list(SETTINGS.values())
        if not any(name in known for family in families for known in _of(family, self.model)):
            having = [model for family in families for model, known in family.items() if name in known]
            raise PellucidError(
                f"--{word} changes nothing for {self.model}",
                fix=f"Leave it out, or choose {' or '.join(dict.fromkeys(having))}" if having else "Leave it out",
            )
        DECLARED[name].check(word, value, type(value))

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


def _of(family: Mapping[str, tuple[str, ...]], model: str) -> list[tuple[str, ...]]:
    """The settings of a model of a family; of every one where it is not known yet."""
    return [family[model]] if model in family else [] if model else list(family.values())


def _number(noun: str, least: float, most: float, example: str, *, is_open: bool = False) -> Callable[[object], None]:
    """A check for a number between two; the least itself is refused where the range is open."""

    def require(value: object) -> None:
        number = float(str(value))
        if not math.isfinite(number) or not least <= number <= most or (is_open and number == least):
            above = "above" if is_open else "from"
            raise PellucidError(
                f"{noun} is {number:g}", fix=f"Choose a number {above} {least:g} to {most:g}, such as {example}"
            )

    return require


_TRAINING: Mapping[str, Callable[[object], None]] = {
    "optimizer": lambda value: require_one_of("optimizer", str(value), OPTIMIZERS),
    "decay": lambda value: require_one_of("decay", str(value), DECAYS),
    "rate": _number("rate", 0, MOST_RATE, "0.003", is_open=True),
    "matrix_rate": _number("matrix rate", 0, MOST_RATE, "0.02", is_open=True),
    "batch": lambda value: require_whole("batch", value),
    "warm_up": lambda value: require_whole("warm-up", value, least=0, most=MOST_STEPS),
    "clip": _number("clip", 0, 1e9, "1"),
    "momentum": _number("momentum", 0, 0.9999, "0.9"),
    "weight_decay": _number("weight decay", 0, 10, "0.01"),
    "threads": lambda value: require_whole("threads", value, most=1024),
    "loss": lambda value: require_one_of("loss", str(value), LOSSES),
    "penalty": lambda value: require_one_of("penalty", str(value), PENALTIES),
    "strength": _number("strength", 0, 1e6, "0.001"),
    "shift": lambda value: require_whole("shift", value, least=0, most=64),
    "save_every": lambda value: require_whole("save-every", value, most=MOST_STEPS),
}
