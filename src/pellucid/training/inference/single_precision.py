"""Sampling in single precision, with the samples of double precision.

Scores of single precision take half the memory, which is what drawing tokens waits for. They are off in the seventh
digit, and a token falls otherwise only where the chance lies that near to the edge of its share. So the edges are
watched: a row whose chance is near one is read again in double precision, and the token falls by that.

Where two scores of a row are off against each other by at most e, a sum of shares F is off by (exp(e) - 1) F (1 - F) at
most, which is how near is near. What is not proved but measured is e: four times the largest difference on tokens drawn
by chance. Every row that is read again is measured once more. Should one be off by more than half of e, then
`ImpreciseScores` is raised, and all is to be drawn in double precision.
"""

import numpy as np
import torch

from pellucid.decoding.continuous import UnsureJoinableReading
from pellucid.decoding.sampling import FloatArray, ImpreciseScores, IntArray, UnsureReading
from pellucid.models.contracts import SequenceModel
from pellucid.models.sequences import compiled_decoding
from pellucid.models.sequences.transformer import Transformer
from pellucid.models.stepwise import JoinableNeuralReading, NeuralReading

TIMES = 4  # what was measured, for what was not
N_MEASURED = 2  # rows


@torch.inference_mode()
def can_read_in_single(model: SequenceModel) -> bool:
    """Whether compiled code reads the network: elsewhere single precision earns little. model: for inference."""
    return isinstance(model.core, Transformer) and compiled_decoding.can_decode(model.core)


class SingleReading(UnsureReading):
    """A network of double precision, read in single precision wherever that cannot change a token."""

    def __init__(self, model: SequenceModel) -> None:
        """model: for inference, in double precision; nobody changes it."""
        self.exact = NeuralReading(model, is_ready=True)
        self.fast = NeuralReading(model.for_inference().float(), is_ready=True)
        self.at_once = self.fast.at_once
        self.scores: FloatArray = np.zeros((0, 0))  # as they were given out last
        self.error = estimate_error(self.exact, self.fast)

    def read(self, tokens: IntArray) -> FloatArray:
        self.scores = self.fast.read(tokens)
        return self.scores

    def advance(self, tokens: IntArray) -> FloatArray:
        self.scores = self.fast.advance(tokens)
        return self.scores

    def keep(self, rows: IntArray) -> None:
        self.fast.keep(rows)
        self.scores = self.scores[rows]

    def read_again(self, rows: IntArray) -> FloatArray:
        columns = self.fast.columns
        tokens = np.stack([column[rows] for column in columns], axis=1) if columns else np.zeros((len(rows), 0))
        found = self.exact.read(tokens)
        if _difference(found, self.scores[rows]) > self.error / 2:
            raise ImpreciseScores
        return found


class JoinableSingleReading(UnsureJoinableReading):
    """The same of rows that join and leave."""

    def __init__(self, model: SequenceModel) -> None:
        """model: for inference, in double precision; nobody changes it."""
        single = model.for_inference().float()
        self.exact = NeuralReading(model, is_ready=True)
        self.rows = JoinableNeuralReading(single, is_ready=True)
        self.scores: FloatArray = np.zeros((0, model.vocab_size))  # as they were given out last
        self.error = estimate_error(self.exact, NeuralReading(single, is_ready=True))

    def join(self, tokens: IntArray, n_rows: int = 1) -> FloatArray:
        found = self.rows.join(tokens, n_rows)
        self.scores = np.concatenate([self.scores, found])
        return found

    def advance(self, tokens: IntArray) -> FloatArray:
        self.scores = self.rows.advance(tokens)
        return self.scores

    def leave(self, row: int) -> None:
        self.rows.leave(row)
        self.scores[row] = self.scores[-1]
        self.scores = self.scores[:-1]

    def read_again(self, rows: IntArray) -> FloatArray:
        found = np.concatenate([self.exact.read(np.array([self.rows.tokens[row]])) for row in rows])
        if _difference(found, self.scores[rows]) > self.error / 2:
            raise ImpreciseScores
        return found

    def read_exactly(self) -> FloatArray:
        exact = JoinableNeuralReading(self.exact.model, is_ready=True)
        self.scores = np.concatenate([exact.join(np.array(tokens)) for tokens in self.rows.tokens])
        self.rows, self.error = exact, 0.0
        return self.scores


def estimate_error(exact: NeuralReading, fast: NeuralReading) -> float:
    """Some times the largest difference between the scores of both, after few tokens and after more."""
    model = exact.model
    chance = np.random.default_rng(0)
    found = 0.0
    for length in (2, min(model.longest, 16)):
        tokens = chance.integers(0, model.vocab_size, (N_MEASURED, length))
        found = max(found, _difference(exact.read(tokens), fast.read(tokens)))
    return TIMES * found


def _difference(first: FloatArray, second: FloatArray) -> float:
    """How far scores are apart at most; what is added to all of a row changes nothing."""
    between = first - second
    return float((between.max(axis=-1) - between.min(axis=-1)).max())
