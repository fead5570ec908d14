"""Uniform: every token is as likely as any other. What a model has to beat to have learned anything."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pellucid.models.contract import CountModel, FloatArray, IntArray, ModelCard, Stream


@dataclass(frozen=True)
class UniformConfig:
    vocab_size: int


class Uniform(CountModel):
    """1/|V| for every token, whatever was read."""

    reach = 0

    def __init__(self, config: UniformConfig, has_boundary: bool) -> None:
        self.vocab_size = config.vocab_size
        self.has_boundary = has_boundary

    @classmethod
    def fit(cls, corpus: Stream, config: UniformConfig) -> Uniform:
        return cls(config, corpus.has_boundary)

    def after_each(self, tokens: IntArray) -> FloatArray:
        return np.full((*tokens.shape, self.vocab_size), -math.log(self.vocab_size))

    def log_probabilities(self, contexts: IntArray) -> FloatArray:
        return np.full((len(contexts), self.vocab_size), -math.log(self.vocab_size))

    def of_each(self, tokens: IntArray) -> FloatArray:
        return np.full(max(0, len(tokens) - 1), -math.log(self.vocab_size))

    @property
    def n_entries(self) -> int:
        return 1

    @property
    def n_stored(self) -> int:
        return 1


MODEL = ModelCard(
    name="uniform",
    says="every token is as likely as any other",
    fit=Uniform.fit,
    tiny=UniformConfig(vocab_size=5),
)
