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

from pellucid.decoding.sampling import FloatArray, ImpreciseScores, IntArray, UnsureReading
from pellucid.models.contracts import SequenceModel
from pellucid.models.sequences import compiled_decoding
from pellucid.models.sequences.transformer import Transformer
from pellucid.models.stepwise import NeuralReading

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
        self.scores: FloatArray = np.zeros((0, 0))  # as they were given out last
        self.error = TIMES * self._measure()

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

    def _measure(self) -> float:
        """The largest difference between the scores of both, after few tokens and after more."""
        model = self.exact.model
        chance = np.random.default_rng(0)
        found = 0.0
        for length in (2, min(model.longest, 16)):
            tokens = chance.integers(0, model.vocab_size, (N_MEASURED, length))
            found = max(found, _difference(self.exact.read(tokens), self.fast.read(tokens)))
        return found


def _difference(first: FloatArray, second: FloatArray) -> float:
    """How far scores are apart at most; what is added to all of a row changes nothing."""
    between = first - second
    return float((between.max(axis=-1) - between.min(axis=-1)).max())
