"""A list or a text on three sides, and what is counted of them: all that a training needs before it needs torch.

A process of its own can work it out while torch is loaded: what was worked out goes along when these are pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pellucid.data.kinds import Data, ListData, TextData
from pellucid.data.options import DataOptions, with_division
from pellucid.data.prepare.tokens import Corpus, SequenceSides, split_sequences, take_part
from pellucid.data.vocabularies import Vocabulary
from pellucid.models.counting.cross_fit import CrossFit
from pellucid.models.counting.fitting import best_ngram
from pellucid.models.counting.ngram import KneserNey, NGram, NGramConfig
from pellucid.training.forked_work import ForkedWork, can_fork
from pellucid.training.options import TrainOptions
from pellucid.training.torch_loading import is_only_training

MOST_EVALUATED = 200_000  # tokens of a side that models are measured on: the mean is then known to about 0.003 nats
MOST_SCORES_EVALUATED = 200_000_000  # of all tokens of a side together: a large vocabulary is measured on fewer tokens
MOST_KEPT = 1 << 25  # log-probabilities that are counted once and kept, rather than again for every batch
MOST_FORKED = 1_000_000  # items or characters that are counted beside the loading of torch: more take far longer


@dataclass(frozen=True)
class CountedSides:
    """The three sides, and what is counted of them once it is asked for."""

    sides: SequenceSides

    @classmethod
    def split(
        cls, data: ListData | TextData, options: DataOptions, vocabulary: Vocabulary | None = None
    ) -> CountedSides:
        """vocabulary: one that was learned before, in place of these data's own."""
        return cls(split_sequences(data, options.tokens, options.boundary, vocabulary))

    @cached_property
    def parts(self) -> Mapping[str, Corpus]:
        """What models are measured on: of each side as much as is worth its time, and no more of train than of dev."""
        most = min(MOST_EVALUATED, MOST_SCORES_EVALUATED // len(self.sides.vocabulary))
        dev, test = (take_part(side, most) for side in (self.sides.dev, self.sides.test))
        return {"train": take_part(self.sides.train, dev.n_predicted), "dev": dev, "test": test}

    @cached_property
    def counts(self) -> NGram:
        """Kneser–Ney of the order that is best on dev: the bar to clear, and where a network starts."""
        return best_ngram(
            self.sides.train, self.parts["dev"], len(self.sides.vocabulary), smoothings=(KneserNey(),)
        ).model.without_counts()

    @cached_property
    def cross_fit(self) -> CrossFit:
        """The same for the training side, where no token is predicted by counts that have seen it."""
        config = NGramConfig(self.counts.vocab_size, self.counts.grams.order)
        return CrossFit.cut(self.sides.train, self.sides.train_items, config, self.counts.n_stored)

    @cached_property
    def table(self) -> npt.NDArray[np.float32] | None:
        """What that says of every token of train, where memory has room: an epoch asks for each token once."""
        if self.sides.train.n_predicted * len(self.sides.vocabulary) > MOST_KEPT:
            return None
        return self.cross_fit.tabulate()


def count_beside(data: Data, reading: DataOptions, training: TrainOptions) -> ForkedWork[CountedSides] | None:
    """Begin to count, in a process of its own: what is left to do then is to load torch, which takes as long.

    None where that is not worth it, or this process may do other things besides.
    """
    if not (is_only_training() and can_fork()) or training.from_run:
        return None
    if not isinstance(data, ListData | TextData) or len(data) > MOST_FORKED:
        return None

    def count() -> CountedSides:
        counted = CountedSides.split(with_division(data, reading), reading)
        _ = counted.counts if training.start == "scratch" else counted.table
        return counted

    return ForkedWork(count)
