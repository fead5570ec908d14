"""`pellucid.train` and its kin: the commands' work, for Python. Nothing heavy is loaded before one is called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.api.shown import Shown

if TYPE_CHECKING:
    from pellucid.data import Data
    from pellucid.data.options import DataOptions
    from pellucid.records import Ladder, Predictions, RateSearch, Samples, ScoredText, TrainingReport
    from pellucid.training.options import Setting, TrainOptions
    from pellucid.training.trained import Trained

READING = (
    *("kind", "encoding", "newlines", "tokens", "separator", "as_number", "target", "task", "drop_missing_target"),
    *("skip_bad", "skip_empty", "image_size", "colour", "examples"),
)
TRAINING = (
    *("optimizer", "learning_rate", "batch_size", "schedule", "warmup", "weight_decay", "clip", "momentum", "threads"),
    *("loss", "penalty", "strength", "shift"),
)


class Run:
    """A run that is finished: what was seen, and the network that came of it."""

    def __init__(self, folder: Path) -> None:
        from pellucid import runs

        self.folder = folder
        self.report: TrainingReport = runs.open_run(folder).report()
        self._trained: Trained | None = None

    @property
    def trained(self) -> Trained:
        """The network with its best weights, loaded when it is first asked for."""
        if self._trained is None:
            from pellucid.training.trained import load_trained

            self._trained = load_trained(self.folder)
        return self._trained

    def table(self) -> Shown[Ladder]:
        """The network beside everything that only counts, the best on dev first."""
        return Shown(self.report.ladder)

    def sample(
        self, n: int = 10, *, prompt: str = "", temperature: float = 1.0, top_p: float = 1.0, seed: int = 0
    ) -> Shown[Samples]:
        """New items, or of running text as many samples, each with how new it is."""
        from pellucid.records import Samples

        drawn = self.trained.sample(n, prompt=prompt, temperature=temperature, top_p=top_p, seed=seed)
        return Shown(Samples(self.trained.facts, prompt, temperature, seed, drawn, top_p=top_p))

    def score(self, text: str) -> Shown[ScoredText]:
        """The surprise of every token of a text."""
        return Shown(self.trained.score(text))

    def predict(self, *files: str | Path, text: str = "", beam: int = 0) -> Shown[Predictions]:
        """What the network of a run on tables, images or pairs says of new ones; text: one source of pairs."""
        from pellucid.training.asking import answering_run, questions

        run = answering_run(self.folder)
        asked = questions(run, [str(file) for file in files], text=text)

        from pellucid.training.predicting import predictions

        return Shown(predictions(run, asked, beam))

    def __repr__(self) -> str:
        from pellucid.figures.words.ladder import earned_words

        return f"Run({str(self.folder)!r}): {earned_words(self.report.ladder)}"


def train(
    data: str | Path = "names",
    *,
    model: str = "",
    minutes: float = 2.0,
    steps: int = 0,
    seed: int = 1,
    name: str = "",
    size: str = "",
    **wishes: Setting,
) -> Run:
    """Train a network on data: a path, or the name of a set that comes with pellucid.

    Within so many minutes, or so many steps; without a model, one that suits the data. Every option of the command is a
    wish: width=64, learning_rate=0.01, tokens="bpe", target="species".
    """
    from pellucid.runs import new_run_path
    from pellucid.training.sources import stem_of

    reading, read = _read(data, model, wishes)
    asked = _asked(read.kind, model, wishes, minutes=minutes, steps=steps, seed=seed, size=size)
    place = new_run_path(name, f"{stem_of(reading.source)}-{asked.model}")

    from pellucid.figures.report_page import report_html
    from pellucid.training.callbacks import Callbacks
    from pellucid.training.run import train as trained

    trained(reading, asked, place, Callbacks(page=report_html), read=read)
    return Run(place)


def open_run(word: str | Path) -> Run:
    """A finished run, by its name under ./runs or by its folder."""
    from pellucid.runs import find_run

    return Run(find_run(str(word)))


def compare(
    data: str | Path = "names",
    *,
    models: Sequence[str] = (),
    minutes: float = 0.5,
    steps: int = 0,
    seed: int = 1,
    name: str = "",
    size: str = "",
    **wishes: Setting,
) -> Shown[Ladder]:
    """All networks, or those named, on one split with one budget each, beside models that are no network."""
    from pellucid.models.catalogue import compared_networks
    from pellucid.runs import new_run_path
    from pellucid.training.sources import stem_of

    reading, read = _read(data, models[0] if len(models) == 1 else "transformer", wishes)
    asked = [
        _asked(read.kind, model, wishes, minutes=minutes, steps=steps, seed=seed, size=size)
        for model in models or compared_networks(read.kind)
    ]
    folder = new_run_path(name, f"compare-{stem_of(reading.source)}")

    from pellucid.figures.report_page import report_html
    from pellucid.training.callbacks import Callbacks
    from pellucid.training.comparison import compare as compared

    ladder = compared(reading, asked, folder, Callbacks(page=report_html), read=read)
    return Shown(ladder)


def rate(
    data: str | Path = "names",
    *,
    model: str = "",
    seeds: Sequence[int] = (1, 2, 3),
    size: str = "",
    **wishes: Setting,
) -> Shown[RateSearch]:
    """The learning rate for a network on data, by a sweep for each seed; its suggestion is None where none is sure."""
    from pellucid.training.learning_rate import N_RATES

    reading, read = _read(data, model, wishes)
    asked = _asked(read.kind, model, wishes, minutes=1.0, steps=N_RATES, seed=1, size=size)

    from pellucid.training.learning_rate import search_learning_rate

    return Shown(search_learning_rate(reading, asked, seeds, read=read))


def _read(data: str | Path, model: str, wishes: dict[str, Setting]) -> tuple[DataOptions, Data]:
    """How the data are to be read, and the data."""
    from pellucid.data.options import DataOptions, open_with
    from pellucid.training.options import windows_of

    given: dict[str, Any] = {option: wishes[option] for option in READING if option in wishes}
    if model == "autoencoder":
        given.setdefault("task", "reconstruction")
    context, _ = windows_of(model or "transformer", {name: wishes[name] for name in ("context",) if name in wishes})
    reading = DataOptions(source=str(data), context=context, **given)
    return reading, open_with(reading)


def _asked(
    kind: str, model: str, wishes: dict[str, Setting], *, minutes: float, steps: int, seed: int, size: str
) -> TrainOptions:
    """What is asked of the network and its training."""
    from pellucid.models.catalogue import default_network
    from pellucid.training.options import TrainOptions, windows_of

    name = model or default_network(kind).name
    training: dict[str, Any] = {option: wishes[option] for option in TRAINING if option in wishes}
    network = {option: wish for option, wish in wishes.items() if option not in READING + TRAINING}
    _, network = windows_of(name, network)
    return TrainOptions(name, minutes, steps, seed, size, **training, network=network, kind=kind)
