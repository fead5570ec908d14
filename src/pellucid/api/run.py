"""A run as Python users hold it, and what its network is asked: to sample, to score a text, to predict.

Samples and scores also come from a model that counts data.
"""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.api.frames import with_answers
from pellucid.data.options import DataOptions
from pellucid.data.readers.memory import is_place
from pellucid.decoding.options import FILTERS, SampleOptions, require_beam
from pellucid.errors import PellucidError, did_you_mean, nearest, quoted
from pellucid.figures import Shown
from pellucid.models.counting import COUNT_MODELS, CountOptions
from pellucid.options import Option, options_of
from pellucid.runs import find_run, holds_run, is_run, open_run
from pellucid.training.inference.language_models import (
    CountedModel,
    CountedRun,
    LanguageModel,
    TrainedModel,
    draw_samples,
    score_text,
)
from pellucid.training.inference.prediction import Predictor, read_examples

if TYPE_CHECKING:
    from pellucid.records import Ladder, Samples, ScoredText, TrainingReport
    from pellucid.training.inference.language_models import Track

REPORT = "report.html"
READING = ("kind", "encoding", "boundary")  # how data are read that a model counts


class TrainedRun:
    """A finished run of `train`, by its name under ./runs or by its folder: its report, and what its model says."""

    def __init__(self, word: str | Path, report: TrainingReport | None = None) -> None:
        """report: what the folder holds, where whoever made it still has it."""
        self.run = open_run(word)
        self.run.require_finished()
        if report is not None:
            self.report = report

    @property
    def folder(self) -> Path:
        return self.run.path

    @cached_property
    def report(self) -> TrainingReport:
        return self.run.report()

    def table(self) -> Shown[Ladder]:
        """The network beside everything that only counts, the best on dev first."""
        return Shown(self.report.ladder)

    def sample(self, count: int | None = None, **options: Any) -> Shown[Samples]:
        """New items, or samples of running text, each with how new it is; options as of `sample`."""
        return sample(self.folder, **options) if count is None else sample(self.folder, count=count, **options)

    def score(self, text: str, *, unknown: str = "error") -> Shown[ScoredText]:
        """The surprise of every token of a text."""
        return score(self.folder, text, unknown=unknown)

    def predict(self, *examples: Any, text: str = "", beam: int = 0) -> Any:
        """What the network of a run on tables, images or pairs says of new ones, as `predict` does."""
        return predict(self.folder, *examples, text=text, beam=beam)

    def _repr_html_(self) -> str:
        """In a notebook, the report."""
        from pellucid.api.notebook import framed_page

        if not (self.folder / REPORT).is_file():
            return f"<pre>{html.escape(repr(self))}</pre>"
        return framed_page(self.run.read_file(REPORT).decode("utf-8", "replace"))

    def __repr__(self) -> str:
        from pellucid.figures.words.training import headline_words

        return f"TrainedRun({str(self.folder)!r}): {headline_words(self.report)}"


def predict(
    run: str | Path,
    *examples: Any,
    text: str = "",
    beam: int = 0,
    encoding: str = "utf-8",
    separator: str = "",
) -> Any:
    """Predictions for new examples, read as the network of the run reads them.

    examples: files, which are images or folders of them, tables, or for pairs lists of sources; their answers come as
    one record. Or one thing that Python holds, as of `train`: a frame comes back as a frame of the same kind, with a
    column of what is predicted and one of its probability; of an array or a list the answers come back. text: one
    source of pairs; beam: of pairs, the width of a beam search, 0 for the likeliest token each time.
    """
    opened = open_run(run)
    predictor = Predictor(opened)
    if beam:
        if opened.kind != "pairs":
            raise PellucidError(
                f"{{beam}} is for pairs, and {quoted(opened.name)} reads {opened.kind}",
                fix="Leave it out",
                options={"beam": None},
            )
        require_beam(beam)
    in_memory = [one for one in examples if not is_place(one)]
    if not in_memory:
        files = [str(file) for file in examples]
        read = read_examples(predictor, files, text=text, encoding=encoding, separator=separator)
        return Shown(predictor.predict(read, beam))
    if len(examples) > 1 or text:
        raise PellucidError(f"{len(examples)} things are given", fix="Give one that Python holds, or files alone")
    (given,) = examples
    return with_answers(given, predictor.predict(predictor.read_memory(given), beam))


def counting_options() -> dict[str, Option]:
    """What may be asked of a count model and its data, by name."""
    reading = options_of(DataOptions)
    return {**options_of(CountOptions), **{name: reading[name] for name in READING}}


def sample(source: str | Path, *, track: Track = list, **options: float | str) -> Shown[Samples]:
    """New items or texts, each with how much of it is copied: from the network of a run, or a count model of data.

    source: a run, a file, or a set that comes with pellucid. Every option of the command is a parameter: count=5,
    prompt="mar", temperature=0.8, top_p=0.9, beam=4, or of a count model n="3". track: for a progress bar.
    """
    own = {name: options[name] for name in options_of(SampleOptions) if name in options}
    filters = {one.name: options[one.name] for one in FILTERS if one.name in options}
    _require_known(options, {**options_of(SampleOptions), **{one.name: one.option for one in FILTERS}})
    asked = SampleOptions(**own, filters=filters)  # type: ignore[arg-type]  # checked there, one by one
    model = open_language_model(source, options)

    return Shown(draw_samples(model, asked, track))


def score(source: str | Path, text: str, **options: float | str) -> Shown[ScoredText]:
    """How likely a text is, token by token, under the network of a run or a count model of data."""
    if not text:
        raise PellucidError("TEXT is empty", fix="Give a text to score, such as emma")
    unknown = options_of(SampleOptions)["unknown"]
    _require_known(options, {"unknown": unknown})
    unknown.check(unknown.noun, options.get("unknown", "error"), str)
    model = open_language_model(source, options)

    return Shown(score_text(model, text, str(options.get("unknown", "error"))))


def open_language_model(source: str | Path, options: Mapping[str, Any]) -> LanguageModel:
    """The network of a run, or a model that counts the train side of data.

    A run knows its model and its data, so that what chooses them is refused. Where a run and data have one name, the
    run is meant unless something is asked of a count model.
    """
    given = {name: options[name] for name in counting_options() if name in options}
    word = str(source)
    if isinstance(source, Path) or (is_run(word) and not (given and _is_data(word))):
        if given:
            name = next(iter(given))
            raise PellucidError(
                f"{{{name}}} changes nothing for the run {quoted(word)}",
                fix="Leave it out: a run knows its model and its data",
                options={name: None},
            )
        run = open_run(source)
        return CountedRun(run) if run.model in COUNT_MODELS else TrainedModel(run)
    _refuse_misspelt_run(word)
    return _count(word, given)


def _count(source: str, given: Mapping[str, Any]) -> CountedModel:
    asked = CountOptions(**{name: given[name] for name in options_of(CountOptions) if name in given})
    asked.require_heard(given)

    from pellucid.data import require_kind
    from pellucid.data.kinds import ListData, TextData
    from pellucid.data.options import open_with
    from pellucid.models.counting.fitting import fit_count_model

    reading = DataOptions(source, **{name: given[name] for name in READING if name in given})
    data = open_with(reading)
    require_kind(data, "list", "text")
    assert isinstance(data, ListData | TextData)
    return CountedModel(fit_count_model(data, asked, reading.boundary), data)


def _require_known(options: Mapping[str, Any], own: Mapping[str, Option]) -> None:
    known = {**own, **counting_options()}
    for name in options:
        if name not in known:
            raise PellucidError(f"there is no option called {quoted(name)}", fix=did_you_mean(name, known))


def _is_data(word: str) -> bool:
    """Whether there are data of that name, whatever they are."""
    from pellucid.data import datasets

    return word in datasets() or os.path.isfile(word)


def _refuse_misspelt_run(word: str) -> None:
    """Refuse what is neither a run nor a file but very like a run's name. What else is missing, opening it says."""
    if os.path.lexists(word) or _is_data(word) or not os.path.isdir("runs"):
        return
    name = Path(word).name
    if os.path.dirname(word) == "runs" or nearest(name, [run.name for run in Path("runs").iterdir() if holds_run(run)]):
        find_run(word)
