"""What a network makes by itself, while it learns and when it has learned."""

from __future__ import annotations

from pellucid.data.sides import Sides
from pellucid.decoding.novelty import Known, longest_copied
from pellucid.decoding.sampling import NEVER, Drawn, draw
from pellucid.models.neural import SequenceModel
from pellucid.models.reading import NeuralReading
from pellucid.records import Sample
from pellucid.training.workshop import Workshop

LONGEST_ITEM = 100  # tokens; an item without an end is cut here
LENGTH_OF_TEXT = 80
LENGTH_AT_THE_END = 300
MOST_SEARCHED = 2_000_000  # characters of running text in which copies are looked for


def texts(shop: Workshop, n_samples: int) -> tuple[str, ...]:
    """A few samples; with the same chances each time, so that what changes is the network."""
    sides = shop.sides
    is_list = sides.vocabulary.has_boundary
    drawn = _drawn(shop.model, sides, n_samples if is_list else 1, shop.plan.seed, LENGTH_OF_TEXT)
    return tuple(sides.vocabulary.decode(list(sample.tokens)) for sample in drawn)


def samples_of(model: SequenceModel, sides: Sides, n_samples: int, seed: int) -> tuple[Sample, ...]:
    """Samples, each with how new it is."""
    if not sides.vocabulary.has_boundary:
        return _of_text(model, sides, seed)
    known = Known(sides.train_items, sides.dev_items)
    found = []
    for sample in _drawn(model, sides, n_samples, seed, LONGEST_ITEM):
        text = sides.vocabulary.decode(list(sample.tokens))
        new = known.novelty(text)
        n_drawn = len(sample.tokens) + (not sample.is_cut)
        found.append(
            Sample(
                text, -sample.log_probability, n_drawn, new.where, new.nearest, new.distance, new.copied, sample.is_cut
            )
        )
    return tuple(found)


def _of_text(model: SequenceModel, sides: Sides, seed: int) -> tuple[Sample, ...]:
    [sample] = _drawn(model, sides, 1, seed, LENGTH_AT_THE_END)
    text = sides.vocabulary.decode(list(sample.tokens))
    source = sides.vocabulary.decode(sides.train.tokens[:MOST_SEARCHED].tolist())
    copied = longest_copied(text, source)
    return (Sample(text, -sample.log_probability, len(sample.tokens), "", "", 0, copied),)


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
