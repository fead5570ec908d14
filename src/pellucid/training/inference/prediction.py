"""New examples for the network of a run: read and checked, then answered.

Torch is loaded when the network is asked, so that a mistake in a file is answered at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.data import ListData, PairsData, TableData, open_data, require_kind
from pellucid.data.kinds import IMAGE_ENDINGS, KINDS
from pellucid.data.prepare import ImagePreparation, TablePreparation
from pellucid.data.prepare.examples import example_hashes
from pellucid.data.readers.memory import as_pixels, read_memory
from pellucid.data.readers.sources import missing_file
from pellucid.data.sets import is_dataset
from pellucid.errors import PellucidError, quoted
from pellucid.models.catalogue import find_network
from pellucid.records import Prediction, Predictions, Statement, make_note
from pellucid.runs import Run
from pellucid.training.run_data import load_pair_vocabulary, load_preparation, load_trained_on

if TYPE_CHECKING:
    from pellucid.data.pair_vocabularies import PairVocabulary
    from pellucid.data.prepare import Preparation

AT_ONCE = 512  # examples of one pass
RANKED = 3  # classes told for each example


@dataclass(frozen=True)
class NewExamples:
    """New examples for the network of a run, as it reads them."""

    names: list[str]
    numbers: np.ndarray[Any, Any] | None = None
    codes: np.ndarray[Any, Any] | None = None
    sources: list[list[int]] = field(default_factory=list)
    truths: list[str] = field(default_factory=list)  # "" of those whose is not known; empty where none is
    notes: tuple[Statement, ...] = ()


class Predictor:
    """The network of a run that answers, and how it reads examples; each part is loaded once, when it is needed."""

    def __init__(self, run: Run) -> None:
        require_answers(run)
        self.run = run

    @cached_property
    def model(self) -> Any:
        from pellucid.training.checkpoints import load_network

        return load_network(self.run)[0].for_inference()

    @cached_property
    def preparation(self) -> Preparation:
        return load_preparation(self.run)

    @cached_property
    def vocabulary(self) -> PairVocabulary:
        return load_pair_vocabulary(self.run)

    @cached_property
    def trained_on(self) -> np.ndarray[Any, Any]:
        return load_trained_on(self.run)

    def read_pictures(self, contents: Sequence[bytes]) -> NewExamples:
        """Image files as they came, each as its bytes."""
        assert isinstance(self.preparation, ImagePreparation)
        names = [f"image {place:,}" for place in range(1, len(contents) + 1)]
        pixels = np.stack([self.preparation.decode(*one) for one in zip(names, contents, strict=True)])
        return NewExamples(names, self.preparation.read(pixels), np.zeros((len(contents), 0), dtype=np.int64))

    def read_memory(self, given: Any) -> NewExamples:
        """What Python holds: a frame, rows, columns by name, an array, or sources of pairs."""
        kind = self.run.kind
        if kind == "table":
            table = read_memory(given, kind="table", fewest_rows=1)
            assert isinstance(table, TableData)
            return _read_rows(self, [table])
        if kind == "pairs":
            sources = list(given)
            odd = next((place for place, source in enumerate(sources, 1) if not isinstance(source, str)), 0)
            if odd or not sources:
                fix = "Give a list of the sources, each a text"
                raise PellucidError(f"source {odd:,} is no text" if odd else "there is no source to answer", fix=fix)
            return _encode_sources(self, [(source, "") for source in sources])
        assert isinstance(self.preparation, ImagePreparation)
        pixels = as_pixels(given)
        names = [f"image {place:,}" for place in range(1, len(pixels) + 1)]
        return NewExamples(names, self.preparation.read(pixels), np.zeros((len(pixels), 0), dtype=np.int64))

    def predict(self, examples: NewExamples, beam: int = 0) -> Predictions:
        """The answers, in the order of the examples. beam: of pairs; 0 takes the likeliest token each time."""
        run, data = self.run, self.run.record["data"]
        found = _write_targets(self, examples, beam) if run.kind == "pairs" else _score_examples(self, examples)
        notes = (*examples.notes, *_count_trained_on(self, examples), *_count_right(found, examples, run.kind))
        return Predictions(run.name, run.model, str(data.get("target", "")), str(data.get("task", "")), found, notes)


def require_answers(run: Run) -> None:
    """Refuse a run whose network goes on with a text and predicts nothing."""
    if run.kind in ("list", "text"):
        raise PellucidError(
            f"the network of {quoted(run.name)} goes on with {KINDS[run.kind].noun}, and predicts no class",
            fix=f"Try pellucid sample {run.name}, or pellucid score {run.name} TEXT",
        )
    find_network(run.model, run.kind)


def read_examples(
    predictor: Predictor, files: Sequence[str], *, text: str = "", encoding: str = "utf-8", separator: str = ""
) -> NewExamples:
    """What a run's network is to predict: images, the rows of tables, or sources of pairs."""
    run = predictor.run
    if run.kind == "pairs":
        return _read_sources(predictor, files, text, encoding)
    if text:
        raise PellucidError(
            f"{{text}} is for pairs, and {quoted(run.name)} reads {run.kind}",
            fix="Leave it out",
            options={"text": None},
        )
    if not files:
        raise PellucidError("FILE is missing", fix=f"Give {'an image' if run.kind == 'images' else 'a table'}")
    if run.kind == "images":
        return _read_images(predictor, files)
    return _read_rows(predictor, list(_open_tables(predictor, files, encoding, separator)))


def _read_images(predictor: Predictor, files: Sequence[str]) -> NewExamples:
    preparation = predictor.preparation
    assert isinstance(preparation, ImagePreparation)
    found = [one for word in files for one in _image_files(Path(word))]
    paths, truths = [path for path, _ in found], [truth for _, truth in found]
    numbers = preparation.read(preparation.pixels_of(paths))
    # A name may hold bytes that are no text; they are shown, and nothing is lost.
    names = [os.fsencode(path).decode("utf-8", "backslashreplace") for path in paths]
    known = truths if all(truth in preparation.classes for truth in truths) else []
    return NewExamples(names, numbers, np.zeros((len(paths), 0), dtype=np.int64), truths=known)


def _image_files(path: Path) -> list[tuple[Path, str]]:
    """The file itself, or the images of a folder or of its class folders, in the order of the bytes of their names.

    Each with its class, where it stands in a class folder; else "".
    """
    if not os.path.lexists(path):
        raise missing_file(path)
    if not path.is_dir():
        if not path.is_file():
            raise PellucidError(f"{quoted(str(path))} is not a regular file", fix="Give an image, or a folder of them")
        return [(path, "")]
    inside = sorted(path.iterdir(), key=os.fsencode)
    found = [(one, "") for one in inside if _is_image(one)]
    if not found:
        folders = [one for one in inside if one.is_dir() and not one.is_symlink()]
        found = [(one, folder.name) for folder in folders for one in sorted(folder.iterdir(), key=os.fsencode)]
        found = [(one, label) for one, label in found if _is_image(one)]
    if not found:
        raise PellucidError(
            f"{quoted(str(path))} holds no image", fix=f"It should hold {', '.join(IMAGE_ENDINGS[:3])} files"
        )
    return found


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_ENDINGS and path.is_file()


def _open_tables(predictor: Predictor, files: Sequence[str], encoding: str, separator: str) -> Iterator[TableData]:
    preparation = predictor.preparation
    assert isinstance(preparation, TablePreparation)
    for word in files:
        table = open_data(
            word,
            kind="table",
            encoding=encoding,
            separator=separator,
            names_none=preparation.names_none,
            fewest_rows=1,
        )
        assert isinstance(table, TableData)
        yield table


def _read_rows(predictor: Predictor, tables: Sequence[TableData]) -> NewExamples:
    preparation = predictor.preparation
    assert isinstance(preparation, TablePreparation)
    names: list[str] = []
    truths: list[str] = []
    notes: list[Statement] = []
    numbers, codes = [], []
    for table in tables:
        read = preparation.read(table)
        where = f"{table.name} " * (len(tables) > 1)
        names += [f"{where}{table.place_of(row)}" for row in range(len(table))]
        numbers.append(read.numbers)
        codes.append(read.codes)
        notes += read.notes
        if read.n_unknown:
            notes.append(make_note("unknown-categories", n=read.n_unknown))
        has_truth = preparation.target in table.frame.columns
        told = table.frame[preparation.target] if has_truth else [None] * len(table)
        truths += ["" if value is None else str(value) for value in told]
    known = truths if any(truths) else []
    return NewExamples(names, np.concatenate(numbers), np.concatenate(codes), truths=known, notes=tuple(notes))


def _read_sources(predictor: Predictor, files: Sequence[str], text: str, encoding: str) -> NewExamples:
    found = [(text, "")] if text else []
    for word in files:
        data = (
            open_data(word, encoding=encoding) if is_dataset(word) else open_data(word, kind="list", encoding=encoding)
        )
        if isinstance(data, PairsData):
            found += data.pairs
        else:
            require_kind(data, "list")
            assert isinstance(data, ListData)
            found += [(source, target) for source, _, target in (item.partition("\t") for item in data.items)]
    if not found:
        raise PellucidError(
            "there is no source to answer", fix="Give a FILE with one a line, or {text}", options={"text": "SOURCE"}
        )
    return _encode_sources(predictor, found)


def _encode_sources(predictor: Predictor, pairs: Sequence[tuple[str, str]]) -> NewExamples:
    """pairs: each source, and its target where that is known, else ""."""
    vocabulary = predictor.vocabulary
    names, truths = [source for source, _ in pairs], [target for _, target in pairs if target]
    sources = [vocabulary.encode(name, "error") for name in names]
    longest = int(predictor.run.config.get("longest_source", 0)) - vocabulary.n_beside
    long = next((name for name in names if len(name) > longest), "")
    if long:
        raise PellucidError(
            f"the source {quoted(long, 40)} has {len(long):,} letters, and the network reads {longest:,}",
            fix="Shorten it, or train on longer ones",
        )
    return NewExamples(names, sources=sources, truths=truths if len(truths) == len(names) else [])


def _score_examples(predictor: Predictor, examples: NewExamples) -> tuple[Prediction, ...]:
    import torch

    from pellucid.layers.losses import find_example_loss
    from pellucid.models.contracts import Reconstructor

    model, preparation, names = predictor.model, predictor.preparation, examples.names
    assert examples.numbers is not None
    assert examples.codes is not None
    numbers, codes = torch.from_numpy(examples.numbers), torch.from_numpy(examples.codes)
    with torch.inference_mode():
        parts = zip(torch.split(numbers, AT_ONCE), torch.split(codes, AT_ONCE), strict=True)
        scores = torch.cat([model(*part) for part in parts]).double()
        if isinstance(model, Reconstructor):
            errors = (scores - model.reconstruction_target(numbers, codes)).square().mean(1).tolist()
            return tuple(
                Prediction(name, f"error {error:.4f}", None, value=error)
                for name, error in zip(names, errors, strict=True)
            )
    if not preparation.classes:
        assert isinstance(preparation, TablePreparation)
        values = preparation.in_units(scores.reshape(-1).numpy()).tolist()
        return tuple(
            Prediction(name, f"{value:.6g}", None, value=value) for name, value in zip(names, values, strict=True)
        )
    classes = preparation.classes
    loss = str(predictor.run.record["plan"].get("loss", "cross-entropy"))
    probabilities = find_example_loss(loss, "classification").probabilities
    if probabilities is None:  # as of hinge, whose scores only rank
        likeliest = scores.argmax(1).tolist()
        return tuple(Prediction(name, classes[place], None) for name, place in zip(names, likeliest, strict=True))
    return tuple(_rank(name, row, classes) for name, row in zip(names, probabilities(scores).numpy(), strict=True))


def _rank(name: str, shares: np.ndarray[Any, Any], classes: tuple[str, ...]) -> Prediction:
    order = np.argsort(-shares, kind="stable")[:RANKED]
    ranked = tuple((classes[place], float(shares[place])) for place in order)
    return Prediction(name, ranked[0][0], ranked[0][1], ranked)


def _write_targets(predictor: Predictor, examples: NewExamples, beam: int) -> tuple[Prediction, ...]:
    from pellucid.decoding.beam import beam_search
    from pellucid.models.pairs.padding import pad_rows
    from pellucid.models.stepwise import PairReading, greedy_answers

    model, decode = predictor.model, predictor.vocabulary.decode_target
    if not beam:
        written = greedy_answers(model, pad_rows(examples.sources))
        return tuple(
            Prediction(name, decode(name, answer), None) for name, answer in zip(examples.names, written, strict=True)
        )
    found = []
    for name, source in zip(examples.names, examples.sources, strict=True):
        best = beam_search(PairReading(model, source), width=beam, longest=model.longest_target + 1, start=[0], stop=0)
        ways = tuple((decode(name, list(one.drawn.tokens)), float(np.exp(one.score))) for one in best[:RANKED])
        found.append(Prediction(name, ways[0][0], ways[0][1], ways))
    return tuple(found)


def _count_trained_on(predictor: Predictor, examples: NewExamples) -> list[Statement]:
    """How many of the rows or images the network learned from: of these it may know the answers by heart."""
    if examples.numbers is None or examples.codes is None:
        return []
    n_known = int(np.isin(example_hashes(examples.numbers, examples.codes), predictor.trained_on).sum())
    note = make_note("trained-on", n=n_known, n_all=len(examples.names), one=KINDS[predictor.run.kind].example)
    return [note] if n_known else []


def _count_right(found: tuple[Prediction, ...], examples: NewExamples, kind: str) -> list[Statement]:
    """How many answers are right, where the truth is known and an answer is either right or wrong."""
    if not examples.truths or (kind != "pairs" and not found[0].ranked):
        return []
    known = [(one.answer, truth) for one, truth in zip(found, examples.truths, strict=True) if truth]
    n_right = sum(answer == truth for answer, truth in known)
    return [make_note("truth-known", n=n_right, n_known=len(known), n_all=len(found))]
