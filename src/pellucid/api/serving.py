"""A run as a server holds it: loaded once, checked before it is asked, and asked many times.

`pellucid serve` is the caller; a server of your own can use the same: `ServedRun` of a list or a text completes
prompts, many at a time, and one of tables, images or pairs predicts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pellucid.decoding.options import FILTERS, require_beam
from pellucid.errors import PellucidError, quoted
from pellucid.models.counting import COUNT_MODELS
from pellucid.records import Predictions, Statement
from pellucid.runs import open_run
from pellucid.training.inference.completions import (
    MOST_CHOICES,
    MOST_TOKENS,
    CompletionBatch,
    CompletionOptions,
    CompletionPiece,
    PreparedPrompt,
    TokenLog,
    prepare_prompt,
)
from pellucid.training.inference.language_models import CountedRun, LanguageModel, TrainedModel
from pellucid.training.inference.prediction import Predictor

__all__ = [
    "FILTERS",
    "MOST_CHOICES",
    "MOST_EXAMPLES",
    "MOST_TOKENS",
    "CompletionBatch",
    "CompletionOptions",
    "CompletionPiece",
    "Predictions",
    "PreparedPrompt",
    "ServedRun",
    "TokenLog",
    "note_words",
]

MOST_EXAMPLES = 1024  # rows, images or sources of one request


class ServedRun:
    """A run with its network loaded, so that nothing of its folder is needed any more."""

    def __init__(self, word: str | Path) -> None:
        self.run = open_run(word)
        self.name, self.kind = self.run.name, self.run.kind
        self.writes = self.kind in ("list", "text")
        self.created = int((self.run.path / "run.json").stat().st_mtime)

    @cached_property
    def language_model(self) -> LanguageModel:
        return CountedRun(self.run) if self.run.model in COUNT_MODELS else TrainedModel(self.run)

    @cached_property
    def predictor(self) -> Predictor:
        return Predictor(self.run)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what the run was made with and of its weights: another one may answer otherwise."""
        found = hashlib.sha256()
        for path in [self.run.path / "run.json", *sorted(self.run.path.glob("*.safetensors"))]:
            found.update(hashlib.sha256(path.read_bytes()).digest())
        return found.hexdigest()[:16]

    def load(self, threads: int = 1) -> None:
        """Read everything that answering needs, and compute with so many threads."""
        import torch

        torch.set_num_threads(threads)
        _ = self.fingerprint
        if self.writes:
            self.completion_batch(room=1)
            return
        predictor = self.predictor
        _ = predictor.model, predictor.trained_on
        _ = predictor.vocabulary if self.kind == "pairs" else predictor.preparation

    def keeps_bits(self) -> bool | None:
        """Whether a completion's numbers are the same to the bit alone and among others; None where none are made."""
        if not self.writes:
            return None
        if not isinstance(self.language_model, TrainedModel):
            return True  # a table's rows do not look at each other
        from pellucid.models.stepwise import rows_keep_their_bits

        return rows_keep_their_bits(self.language_model.model)

    def prepare(self, prompt: str | Sequence[int], options: CompletionOptions) -> PreparedPrompt:
        """A prompt that is good to be gone on with; one that is not is refused."""
        if not self.writes:
            raise PellucidError(
                f"the network of {quoted(self.name)} reads {self.kind}, and writes no text", fix="Ask /v1/predict"
            )
        return prepare_prompt(self.language_model, prompt, options)

    def completion_batch(self, room: int) -> CompletionBatch[Any]:
        return CompletionBatch(self.language_model, room)

    def predict_rows(self, rows: Sequence[Mapping[str, Any]]) -> Predictions:
        """Predictions of a table's rows, each the values by column."""
        self._require_kind("table", "rows")
        _require_few(rows, "rows")
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = {name: [row.get(name) for row in rows] for name in names}
        if not names:
            raise PellucidError("the rows have no columns", fix="Send the columns that the network was trained on")
        return self.predictor.predict(self.predictor.read_memory(columns))

    def predict_images(self, files: Sequence[bytes]) -> Predictions:
        """Predictions of images, each the bytes of a file."""
        self._require_kind("images", "images")
        _require_few(files, "images")
        return self.predictor.predict(self.predictor.read_pictures(files))

    def predict_sources(self, sources: Sequence[str], beam: int = 0) -> Predictions:
        """Answers to the sources of pairs. beam: the width of a beam search, 0 for the likeliest token each time."""
        self._require_kind("pairs", "sources")
        _require_few(sources, "sources")
        if beam:
            require_beam(beam)
        return self.predictor.predict(self.predictor.read_memory(sources), beam)

    def _require_kind(self, kind: str, noun: str) -> None:
        if self.kind == kind:
            return
        wants = {"table": '"rows"', "images": '"images"', "pairs": '"sources"'}
        fix = f"Send {wants[self.kind]}" if self.kind in wants else "Ask /v1/completions"
        raise PellucidError(f"{noun} came, and the network of {quoted(self.name)} reads {self.kind}", fix=fix)


def _require_few(examples: Sequence[object], noun: str) -> None:
    if not 1 <= len(examples) <= MOST_EXAMPLES:
        raise PellucidError(f"{len(examples):,} {noun} came", fix=f"Send 1 to {MOST_EXAMPLES:,} at a time")


def note_words(notes: Sequence[Statement]) -> list[str]:
    """Notes as sentences."""
    from pellucid.figures.words.notes import note_sentences

    return note_sentences(notes)
