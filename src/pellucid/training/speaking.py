"""What a network makes by itself, while it learns and when it has learned."""

from __future__ import annotations

from pellucid.data.sides import Sides
from pellucid.decoding.novelty import Known
from pellucid.decoding.samples import items_of, texts_of
from pellucid.decoding.sampling import NEVER, Drawn, draw
from pellucid.models.neural import SequenceModel
from pellucid.models.reading import NeuralReading
from pellucid.records import Sample

LONGEST_ITEM = 100  # tokens; an item without an end is cut here
LENGTH_OF_TEXT = 80
LENGTH_AT_THE_END = 300
MOST_SEARCHED = 2_000_000  # tokens of running text in which copies are looked for


def texts(model: SequenceModel, sides: Sides, n_samples: int, seed: int) -> tuple[str, ...]:
    """A few samples; with the same chances each time, so that what changes is the network."""
    is_list = sides.vocabulary.has_boundary
    drawn = _drawn(model, sides, n_samples if is_list else 1, seed, LENGTH_OF_TEXT)
    return tuple(sides.vocabulary.decode(list(sample.tokens)) for sample in drawn)


def samples_of(model: SequenceModel, sides: Sides, n_samples: int, seed: int) -> tuple[Sample, ...]:
    """Samples, each with how new it is; of running text a single one."""
    decode = sides.vocabulary.decode
    if sides.vocabulary.has_boundary:
        drawn = _drawn(model, sides, n_samples, seed, LONGEST_ITEM)
        return tuple(items_of(drawn, decode, [], Known(sides.train_items, sides.dev_items)))
    source = decode(sides.train.tokens[:MOST_SEARCHED].tolist())
    return tuple(texts_of(_drawn(model, sides, 1, seed, LENGTH_AT_THE_END), decode, [], source))


def _drawn(model: SequenceModel, sides: Sides, n_samples: int, seed: int, length: int) -> list[Drawn]:
    is_list = sides.vocabulary.has_boundary
    return draw(
        NeuralReading(model),
        n_samples=n_samples,
        longest=LONGEST_ITEM if is_list else length,
        start=[0] if is_list else [],
        stop=0 if is_list else NEVER,
        seed=seed,
    )
