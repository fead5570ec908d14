"""How the record that a figure is drawn from is come by: from data, from a run, or from something trained for it.

Torch stays out of `figures`, so that yesterday's run can be drawn without it. What is heavy is imported where it is
used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.data.options import boundary_option, require_used
from pellucid.errors import PellucidError, quoted
from pellucid.figures.picture import FigureCard
from pellucid.lessons.lesson import SEED, SMALL_MLP, TINY_TRANSFORMER, TINY_VIT, train_small_run
from pellucid.options import check_options, option
from pellucid.records import (
    AttentionGraph,
    AttentionMaps,
    BigramCounts,
    ColumnHistogram,
    HeadStudy,
    Ladder,
    LearningRateSearch,
    PatchAttention,
    PatchPositions,
    SizeLadder,
    Statement,
    SweepReport,
    TrainingReport,
    make_note,
)

if TYPE_CHECKING:
    import numpy

    from pellucid.data import ListData, TextData, Vocabulary
    from pellucid.data.kinds import Data
    from pellucid.data.prepare import ImagePreparation
    from pellucid.models.examples.vit import ViT
    from pellucid.runs import Run
    from pellucid.training.inference.language_models import TrainedModel

ATTENTIVE = ("transformer", "encoder", "encoder-decoder", "rnn-encoder-decoder", "hf-causal-lm")
READ = "isabella"  # by a small transformer of names
LEAST_WEIGHT = 0.1  # that is drawn as an arrow
OF_TEXT = 12  # tokens of a run's text that are read where none are given


@dataclass(frozen=True)
class DrawOptions:
    """What a figure may be asked for; None: it was not said. A lesson has knobs of its own."""

    source: str | None = None  # data or a run
    word: str | None = option(None, "Draw this one word, in place of DATA.", value_name="WORD")
    input: str | None = option(None, "Text or image file that a network is to read.", value_name="INPUT")
    seed: int | None = option(
        None, "Random seed of what is trained to be drawn; by default 1.", minimum=0, maximum=(1 << 64) - 1
    )
    column: str | None = option(None, "Column to draw; by default the one with the heaviest tail.", value_name="COLUMN")
    bins: int | None = option(
        None, "Bars of a histogram; by default 60.", noun="the number of bars", minimum=2, maximum=1000
    )
    layer: int | None = option(None, "Layer to draw, counted from 1; by default several.")
    head: int | None = option(None, "Head to draw, counted from 1; by default several.")
    least: float | None = option(
        None, "Smallest attention weight that is drawn as an arrow; by default 0.1.", minimum=0, maximum=1
    )
    kind: str = option("", "Read the data as list, text or table, whatever they look like.")
    encoding: str = option("utf-8", "Character encoding of the file.")
    boundary: str = boundary_option()

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def chosen_seed(self) -> int:
        return SEED if self.seed is None else self.seed


class Measured(NamedTuple):
    """A record to draw, and how it came about."""

    record: Any
    notes: tuple[Statement, ...]


# Data


def _about_data(data: Data) -> tuple[Statement, ...]:
    return (make_note("drawn-of-data", description=data.description), *data.notes)


def _open_sequences(options: DrawOptions) -> ListData | TextData:
    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ListData, TextData

    data = open_data(options.source or "names", kind=options.kind, encoding=options.encoding)
    require_kind(data, "list", "text")
    assert isinstance(data, ListData | TextData)
    return data


def _count_bigrams(card: FigureCard[Any], options: DrawOptions) -> Measured:
    if options.word is not None:
        from pellucid.models.counting.simple_models import word_counts

        return Measured(word_counts(options.word, options.boundary), ())
    data = _open_sequences(options)
    require_used(options, data.kind)
    from pellucid.models.counting.simple_models import bigram_counts

    return Measured(bigram_counts(data, options.boundary), _about_data(data))


def _column_histogram(card: FigureCard[Any], options: DrawOptions) -> Measured:
    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ListData, TableData

    data = open_data(options.source or "incomes", kind=options.kind, encoding=options.encoding)
    require_kind(data, "table", "list")
    assert isinstance(data, TableData | ListData)
    from pellucid.data.splits.tails import measure_histogram

    record = measure_histogram(data, options.column or "", **({} if options.bins is None else {"bins": options.bins}))
    return Measured(record, _about_data(data))


def _search_learning_rate(card: FigureCard[Any], options: DrawOptions) -> Measured:
    """Three sweeps with the small network that is also trained where no run is given."""
    _open_sequences(options)  # what cannot be read is refused before torch is loaded

    from pellucid.data.options import DataOptions
    from pellucid.training.learning_rate import search_learning_rate
    from pellucid.training.options import TrainOptions

    seed = options.chosen_seed
    reading = DataOptions(options.source or "names", options.kind, options.encoding)
    return Measured(search_learning_rate(reading, TrainOptions(**SMALL_MLP, seed=seed), (seed, seed + 1, seed + 2)), ())


# Runs and comparisons


def _open_run(options: DrawOptions) -> Run:
    """The run that was named; a seed would change nothing in it."""
    from pellucid.runs import open_run

    assert options.source is not None
    if options.seed is not None:
        raise PellucidError(
            "{seed} changes nothing in a run that is there", fix="Leave it, or the run, out", options={"seed": None}
        )
    return open_run(options.source)


def _about_run(run: Run) -> Statement:
    return make_note("drawn-of-run", run=run.name, model=run.model, description=run.data.description)


def _no_run_named(network: Mapping[str, Any], data: str, seed: int) -> Statement:
    return make_note("no-run-named", model=network["model"], data=data, steps=network["steps"], seed=seed)


def _report_of_run(card: FigureCard[Any], options: DrawOptions) -> Measured:
    """A run that is finished, or a small one that is trained here and forgotten."""
    if options.source is None:
        # Only what a seed changes can be shown by a small network of names.
        if "seed" not in card.options:
            raise PellucidError(
                f"{card.name} is drawn of a run, and none was named",
                fix=f"Train one with pellucid train digits --name first, then draw {card.name} first",
            )
        seed = options.chosen_seed
        with train_small_run(SMALL_MLP, seed) as (report, _):
            return Measured(report, (_no_run_named(SMALL_MLP, "names", seed),))
    run = _open_run(options)
    report = run.report()
    if report.is_counted and card.needs is not Ladder:
        raise PellucidError(
            f"{report.name} is a run of {report.network.name}, which only counts: nothing was learned that "
            f"{card.name} could show",
            fix=f"Draw ladder of it, or bigram-matrix of {report.data.source}",
        )
    note = make_note("drawn-of-run", run=report.name, model=report.network.name, description=report.data.description)
    if card.takes_tokens and run.kind in ("list", "text"):
        from pellucid.training.inference.token_mistakes import measure_token_mistakes

        return Measured(measure_token_mistakes(run), (note,))
    return Measured(report, (note,))


def _ladder_of_run(card: FigureCard[Any], options: DrawOptions) -> Measured:
    measured = _report_of_run(card, options)
    return Measured(measured.record.ladder, measured.notes)


def _sizes_of_comparison(card: FigureCard[Any], options: DrawOptions) -> Measured:
    """What a comparison at several sizes of the training side wrote into its folder."""
    if options.source is None:
        raise PellucidError(
            f"{card.name} is drawn of a comparison, and none was named",
            fix="Make one with pellucid compare digits --sizes 100,400, and name its folder",
        )
    from pellucid.runs.run import BASE
    from pellucid.training.comparison import size_ladder_of

    by_name = BASE / options.source
    return Measured(size_ladder_of(by_name if by_name.is_dir() else Path(options.source)), ())


def _search_of_run(card: FigureCard[Any], options: DrawOptions) -> Measured:
    """Of the run that came of a search."""
    if options.source is None:
        raise PellucidError(
            f"{card.name} is drawn of a run that came of a search, and none was named",
            fix="Make one with pellucid sweep names --over width=32,64, and name its run",
        )
    from pellucid.api.sweep import sweep_of
    from pellucid.runs import find_run

    return Measured(sweep_of(find_run(options.source)), ())


# Attention of a run


def _attention_maps(card: FigureCard[Any], options: DrawOptions) -> Measured:
    if options.source is None:
        return _maps_of_small_transformer(options)
    run = _open_run(options)
    if run.kind == "images" and run.model == "vit":
        raise PellucidError(f"{run.name} is a run of vit, which reads patches", fix="Draw patch-attention of it")
    if run.model not in ATTENTIVE:
        raise PellucidError(
            f"{run.name} is a run of {run.model}, which has no attention",
            fix=f"Name one of {' or '.join(ATTENTIVE)}, or none",
        )
    if run.config.get("attention") == "none":
        raise PellucidError(
            f"{run.name} is a run of {run.model} without attention",
            fix="Train one with {attention}",
            options={"attention": "additive"},
        )
    return _maps_of_pairs(options, run) if run.kind == "pairs" else _maps_of_sequences(options, run)


def _attention_graph(card: FigureCard[Any], options: DrawOptions) -> Measured:
    least = LEAST_WEIGHT if options.least is None else options.least
    maps, notes = _attention_maps(card, options)
    shapes = [(len(part.layers), len(part.layers[0])) for part in maps.parts]
    layers, heads = (
        _chosen_places(name, number, min([shape[place] for shape in shapes]))
        for place, (name, number) in enumerate((("layer", options.layer), ("head", options.head)))
    )
    return Measured(AttentionGraph(maps, layers, heads, least), notes)


def _chosen_places(name: str, number: int | None, n: int) -> tuple[int, ...]:
    """The one that was asked for, or a few of all."""
    from pellucid.figures.charts.panel import even_places

    if number is None:
        return tuple(even_places(n, 2))
    if number > n:
        raise PellucidError(
            f"{{{name}}} is {number}, and this network has {n}", fix=f"Choose 1 to {n}", options={name: None}
        )
    return (number - 1,)


def _head_study(card: FigureCard[Any], options: DrawOptions) -> Measured:
    from pellucid.runs import open_run

    if options.source is not None:
        run = _open_run(options)
        from pellucid.training.inference.head_study import study_heads

        return Measured(study_heads(run), (_about_run(run),))
    seed = options.chosen_seed
    with train_small_run(TINY_TRANSFORMER, seed) as (_, folder):
        from pellucid.training.inference.head_study import study_heads

        return Measured(study_heads(open_run(folder)), (_no_run_named(TINY_TRANSFORMER, "names", seed),))


def _maps_of_sequences(options: DrawOptions, run: Run) -> Measured:
    from pellucid.training.inference.language_models import TrainedModel

    model = TrainedModel(run)
    text = _first_text(model) if options.input is None else options.input
    _require_readable(model.vocabulary, text)
    return _maps_of_text(model, text, _about_run(run))


def _maps_of_pairs(options: DrawOptions, run: Run) -> Measured:
    from pellucid.training.inference.prediction import Predictor, read_examples
    from pellucid.training.run_data import load_pair_vocabulary

    source = run.data.first_pairs[0][0] if options.input is None else options.input
    vocabulary = load_pair_vocabulary(run)
    _require_readable(vocabulary, source)
    wanted = read_examples(Predictor(run), [], text=source)

    from pellucid.models.contracts import PairModel
    from pellucid.training.checkpoints import load_network
    from pellucid.training.inference.attention_maps import pair_maps

    model = load_network(run)[0].for_inference().double()
    assert isinstance(model, PairModel)
    record = pair_maps(model, vocabulary, wanted.sources[0], f"A run of {run.model}")
    return Measured(record, (_about_run(run),))


def _maps_of_small_transformer(options: DrawOptions) -> Measured:
    from pellucid.data import Characters, open_data
    from pellucid.data.kinds import ListData

    text = READ if options.input is None else options.input
    names = open_data("names")
    assert isinstance(names, ListData)
    _require_readable(Characters.of(names.items), text)
    from pellucid.runs import open_run
    from pellucid.training.inference.language_models import TrainedModel

    seed = options.chosen_seed
    with train_small_run(TINY_TRANSFORMER, seed) as (_, run):
        return _maps_of_text(TrainedModel(open_run(run)), text, _no_run_named(TINY_TRANSFORMER, "names", seed))


def _maps_of_text(trained: TrainedModel, text: str, note: Statement) -> Measured:
    from pellucid.training.inference.attention_maps import text_maps

    n_tokens = len(trained.vocabulary.encode(text))
    notes = [note]
    if n_tokens > trained.longest_prompt:
        notes.append(make_note("input-cut", n=n_tokens, n_used=trained.longest_prompt))
    return Measured(text_maps(trained, text), tuple(notes))


def _require_readable(vocabulary: Vocabulary, text: str) -> None:
    """Refuse what the network cannot read before torch is loaded, or anything trained."""
    try:
        vocabulary.encode(text)
    except PellucidError as error:
        raise PellucidError(
            error.what, where=error.where, fix="Give {input} other words", options={"input": None}
        ) from error


def _first_text(model: TrainedModel) -> str:
    """The first item that the run's network learned from, or the beginning of its text."""
    if model.is_list:
        return model.run.data.first[0]
    # Cut in the middle of a word, the end may be none that is known; it is past what is read.
    beginning = model.vocabulary.encode(model.known.text[: 40 * OF_TEXT], "skip")
    text = model.vocabulary.decode(beginning[:OF_TEXT])
    if not text:
        raise PellucidError(
            "what the run was trained on is not there any more",
            fix="Say what to read with {input}",
            options={"input": None},
        )
    return text


# Vision transformers


def _patch_positions(card: FigureCard[Any], options: DrawOptions) -> Measured:
    with _open_vit(options) as (run, note):
        from pellucid.training.inference.attention_maps import patch_positions

        return Measured(patch_positions(_load_vit(run), _describe(run)), (note,))


def _patch_attention(card: FigureCard[Any], options: DrawOptions) -> Measured:
    from pellucid.data.prepare import ImagePreparation
    from pellucid.training.run_data import load_preparation

    with _open_vit(options) as (run, note):
        preparation = load_preparation(run)
        assert isinstance(preparation, ImagePreparation)
        if options.input is None:
            pixels, where, truth = _first_image(run, preparation)
        else:
            file = Path(options.input)
            pixels, where, truth = preparation.pixels_of([file])[0], quoted(file.name), ""
        from pellucid.training.inference.attention_maps import patch_attention

        record = patch_attention(_load_vit(run), preparation, pixels, f"{_describe(run)}, reads {where}", truth)
        return Measured(record, (note,))


@contextmanager
def _open_vit(options: DrawOptions) -> Iterator[tuple[Run, Statement]]:
    """The run that was named, or one that is trained for it, and a note on it."""
    from pellucid.runs import open_run

    if options.source is None:
        seed = options.chosen_seed
        with train_small_run(TINY_VIT, seed, data="digits") as (_, folder):
            yield open_run(folder), _no_run_named(TINY_VIT, "digits", seed)
        return
    run = _open_run(options)
    if run.model != "vit":
        raise PellucidError(
            f"{run.name} is a run of {run.model}, and patches are read by vit", fix="Name a run of vit, or none"
        )
    yield run, _about_run(run)


def _load_vit(run: Run) -> ViT:
    """In double precision, so that what is drawn does not depend on the number of threads."""
    from pellucid.models.examples.vit import ViT
    from pellucid.training.checkpoints import load_network

    model = load_network(run)[0].for_inference().double()
    assert isinstance(model, ViT)
    return model


def _describe(run: Run) -> str:
    config = run.record["network"]
    return f"A vit of {config['parameters']:,} parameters, trained on {run.data.name}"


def _first_image(run: Run, preparation: ImagePreparation) -> tuple[numpy.ndarray[Any, Any], str, str]:
    """The first image of the run's data as its network reads it, what it is, and its class."""
    from pellucid.data.kinds import ImagesData, PixelsData
    from pellucid.data.options import open_with
    from pellucid.data.prepare.image_examples import convert_pixels
    from pellucid.training.run_data import data_options_of, find_source

    data = open_with(data_options_of(run, find_source(run)))
    where = f"the first image of {data.name}"
    if isinstance(data, PixelsData):
        pixels = convert_pixels(data.pixels[:1], preparation.size, preparation.mode)[0]
        return pixels, where, data.classes[data.labels[0]]
    assert isinstance(data, ImagesData)
    return preparation.pixels_of([data.files[0].path])[0], where, data.files[0].label


# How each record that a figure is drawn from is come by.
MEASURES: Mapping[type, Callable[[FigureCard[Any], DrawOptions], Measured]] = {
    BigramCounts: _count_bigrams,
    ColumnHistogram: _column_histogram,
    TrainingReport: _report_of_run,
    Ladder: _ladder_of_run,
    SizeLadder: _sizes_of_comparison,
    SweepReport: _search_of_run,
    LearningRateSearch: _search_learning_rate,
    AttentionMaps: _attention_maps,
    AttentionGraph: _attention_graph,
    HeadStudy: _head_study,
    PatchPositions: _patch_positions,
    PatchAttention: _patch_attention,
}
