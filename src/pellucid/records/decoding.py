"""What may come next: the branches of a decoding tree, what a beam kept and let go, where a text was copied from."""

from typing import NamedTuple


class TreeBranch(NamedTuple):
    """One token that may come next."""

    token: int
    text: str  # as it is shown
    share: float  # its probability as the model has it
    bent: float  # as temperature and filters bend it; 0 where a filter masks it
    is_end: bool = False  # of an item


class TreeLevel(NamedTuple):
    """One place of a text: what may stand there, the likeliest first, and what does."""

    branches: tuple[TreeBranch, ...]
    chosen: int  # the token that stands there
    n_others: int  # tokens that are not among the branches
    others_share: float  # their probabilities together, as the model has them
    others_bent: float
    n_kept: int  # tokens that no filter masks
    entropy_bits: float  # of the bent probabilities


class BeamCandidate(NamedTuple):
    """One way to go on that a beam looked at in one step."""

    parent: int  # among those that stayed in the step before and had not ended
    token: int
    log_probability: float  # of everything up to here
    is_kept: bool
    is_end: bool


class BeamLevel(NamedTuple):
    """One step of a beam search: those that stay first, then as many that had to go."""

    candidates: tuple[BeamCandidate, ...]


class BeamNode(NamedTuple):
    """A candidate in the tree of a whole search."""

    level: int
    parent: int  # its place among all nodes; -1: it follows the beginning
    text: str
    probability: float  # of everything up to here
    fate: str  # best, finished, died (all that came of it was let go) or cut (at once)


class BeamTree(NamedTuple):
    """Everything that a beam search looked at, and what it found."""

    nodes: tuple[BeamNode, ...]
    found: tuple[tuple[str, float], ...]  # texts and their probabilities, the best first


class DecodingTree(NamedTuple):
    """A text as it goes on, level by level, and the same by a beam."""

    prompt: str
    levels: tuple[TreeLevel, ...]
    text: str  # the whole
    nats: float  # that the tokens after the prompt cost together
    beam: BeamTree | None = None


class Provenance(NamedTuple):
    """Where a text may have come from."""

    text: str
    where: str  # train, dev, new, or "" where it is not known
    nearest: str
    distance: int  # edits
    copied: str  # the longest part that stands in train
    sharing: tuple[str, ...]  # items of train that have that part, or of running text what stands around it
    n_sharing: int


__all__ = [
    "BeamCandidate",
    "BeamLevel",
    "BeamNode",
    "BeamTree",
    "DecodingTree",
    "Provenance",
    "TreeBranch",
    "TreeLevel",
]
