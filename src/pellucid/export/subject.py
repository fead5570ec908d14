"""The run that is exported: its network, what it reads, and inputs that an export is checked with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.data.pair_vocabularies import PairVocabulary
from pellucid.data.prepare import ImagePreparation, TablePreparation
from pellucid.data.vocabularies import Vocabulary
from pellucid.errors import PellucidError
from pellucid.models.catalogue import NetworkCard, find_network
from pellucid.models.contracts import ANY_LENGTH, Network, SequenceModel
from pellucid.models.counting.ngram import NGram
from pellucid.models.sequences.count_tables import CountTables
from pellucid.models.sequences.on_counting import OnCounting, network_alone
from pellucid.records import TrainingReport
from pellucid.runs import Run
from pellucid.training.checkpoints import load_network
from pellucid.training.run_data import load_pair_vocabulary, load_preparation, load_vocabulary

N_INPUTS = 100
AT_ONCE = 5  # of them in one batch
LONGEST = 64  # tokens of an input
ALLOWED = 1e-4  # that two tools may differ by, of numbers as large as logits are
SEED = 1
GREEDY = 32  # tokens that are generated to compare texts


@dataclass(frozen=True)
class Subject:
    """A run, opened to be exported.

    model: what is written down, in eval mode, with counts as tensors of it. original: the network as pellucid runs it,
    which whatever is written is compared with.
    """

    run: Run
    card: NetworkCard
    config: Any
    model: Network
    original: Network
    is_network_only: bool

    @classmethod
    def load(cls, run: Run, *, is_network_only: bool) -> Subject:
        card = find_network(run.model, run.kind)
        config = card.config_from(run.config)
        model, _ = load_network(run)
        original = model
        if isinstance(model, OnCounting):
            counts = model.counts
            assert isinstance(counts, NGram)
            # The tables answer `forward` as the counts do, and no more is asked of them in an export.
            tables: Any = CountTables.of(counts)
            model = network_alone(model, card.build(config)) if is_network_only else OnCounting(model.network, tables)
        original = model if is_network_only else original
        return cls(run, card, config, model.eval(), original.for_inference(), is_network_only)

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def kind(self) -> str:
        return self.run.kind

    @cached_property
    def report(self) -> TrainingReport:
        return self.run.report()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Of lists and texts."""
        return load_vocabulary(self.run)

    @cached_property
    def pair_vocabulary(self) -> PairVocabulary:
        return load_pair_vocabulary(self.run)

    @cached_property
    def table(self) -> TablePreparation:
        found = load_preparation(self.run)
        assert isinstance(found, TablePreparation)
        return found

    @cached_property
    def images(self) -> ImagePreparation:
        found = load_preparation(self.run)
        assert isinstance(found, ImagePreparation)
        return found

    @property
    def longest(self) -> int:
        """Tokens that the network may be given at once."""
        assert isinstance(self.model, SequenceModel)
        return LONGEST if self.model.longest == ANY_LENGTH else self.model.longest

    def inputs(self) -> Iterator[tuple[Tensor, ...]]:
        """100 inputs of the network, in batches of 5 and of many lengths; the same each time."""
        draw = np.random.default_rng(SEED)
        for number in range(N_INPUTS // AT_ONCE):
            yield tuple(torch.from_numpy(one) for one in self._batch(draw, number))

    def _batch(self, draw: np.random.Generator, number: int) -> tuple[np.ndarray[Any, Any], ...]:
        if self.kind in ("list", "text"):
            time = 1 + number * (min(self.longest, LONGEST) - 1) // (N_INPUTS // AT_ONCE - 1)
            tokens = draw.integers(0, len(self.vocabulary), (AT_ONCE, time))
            if self.vocabulary.has_boundary:
                tokens[:, 0] = 0
            return (tokens,)
        if self.kind == "pairs":
            source, target = (int(self.run.config[name]) for name in ("longest_source", "longest_target"))
            sources = draw.integers(1, len(self.pair_vocabulary), (AT_ONCE, 1 + number % source))
            sources[1:, 1:][:, -1:] = 0  # some are shorter, but none is empty, as no source of a run is
            tokens = draw.integers(1, len(self.pair_vocabulary), (AT_ONCE, 1 + number % (target + 1)))
            tokens[:, 0] = 0
            return sources, tokens
        preparation = self.table if self.kind == "table" else self.images
        numbers = draw.standard_normal((AT_ONCE, *preparation.numbers_shape)).astype(np.float32)
        sizes = preparation.category_sizes
        codes = np.array([[draw.integers(0, n) for n in sizes] for _ in range(AT_ONCE)], dtype=np.int64)
        return numbers, codes.reshape(AT_ONCE, len(sizes))

    @torch.inference_mode()
    def answers(self) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """Each batch of inputs, and what the network itself puts out."""
        for batch in self.inputs():
            yield batch, self.original(*batch)

    def texts(self) -> Iterator[tuple[str, list[int]]]:
        """A text out of each batch of inputs, and how the vocabulary reads it: what its boundaries enclose."""
        for (rows,) in self.inputs():
            text, tokens = "", list[int]()
            for token in rows[0].tolist():
                if self.vocabulary.is_boundary(token):
                    continue
                grown = text + self.vocabulary.decode([token])
                try:
                    tokens = self.vocabulary.encode(grown)
                except PellucidError:
                    continue  # two words that grow together are a third, which nobody has seen
                text = grown
            yield text, tokens

    @torch.inference_mode()
    def greedy(self) -> tuple[list[int], list[int]]:
        """The first symbol as a prompt, and what follows it when the likeliest token is taken each time.

        It ends before a token that leads by so little that two tools may choose differently.
        """
        prompt = [0] * self.vocabulary.has_boundary + [self.vocabulary.shift]
        said: list[int] = []
        while len(said) < GREEDY and len(prompt) + len(said) < self.longest:
            best = self.original(torch.tensor([[*prompt, *said]]))[0, -1].topk(2)
            if float(best.values[0] - best.values[1]) <= 2 * ALLOWED:
                break
            said.append(int(best.indices[0]))
            if self.vocabulary.is_boundary(said[-1]):
                break
        return prompt, said


def largest_difference(one: Tensor, other: Tensor) -> float:
    """Of two tensors; infinite where their shapes differ or one holds no number.

    >>> one = torch.tensor([1.0, 2.0])
    >>> largest_difference(one, torch.tensor([1.0, 2.5])), largest_difference(one, one[:1])
    (0.5, inf)
    """
    if one.shape != other.shape:
        return float("inf")
    found = float((one.double() - other.double()).abs().max()) if one.numel() else 0.0
    return found if found == found else float("inf")
