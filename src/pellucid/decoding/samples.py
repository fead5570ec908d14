"""What was drawn as text, each with how new it is."""

from collections.abc import Callable, Iterable, Sequence

from pellucid.decoding.novelty import Known, Novelty, longest_copied
from pellucid.decoding.sampling import Drawn
from pellucid.records import Sample

NOT_KNOWN = Novelty("not known", "", 0, "")
MOST_COMPARED = 20_000_000_000  # letters of a sample times letters of the source

Decode = Callable[[Sequence[int]], str]


def items_of(drawn: Iterable[Drawn], decode: Decode, start: Sequence[int], known: Known | None) -> list[Sample]:
    """Samples of a list, each compared with every item of train and dev; without these, nothing is said about it."""
    found = []
    for sample in drawn:
        text = decode([*start, *sample.tokens])
        new = known.novelty(text) if known else NOT_KNOWN
        n_tokens = len(sample.tokens) + (not sample.is_cut)
        novelty = (new.where, new.nearest, new.distance, new.copied)
        found.append(Sample(text, -sample.log_probability, n_tokens, *novelty, sample.is_cut))
    return found


def texts_of(drawn: Iterable[Drawn], decode: Decode, start: Sequence[int], source: str) -> list[Sample]:
    """Samples of running text, and the longest part of each that stands in the source; "" where it is not known."""
    found = []
    for sample in drawn:
        text = decode(sample.tokens)
        copied = longest_copied(text, source) if len(text) * len(source) <= MOST_COMPARED else ""
        whole = decode([*start, *sample.tokens])
        found.append(Sample(whole, -sample.log_probability, len(sample.tokens), "", "", 0, copied))
    return found
