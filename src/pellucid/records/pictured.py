"""What attention was seen to do: weights for each head, masks, and images in patches."""

from typing import NamedTuple

from pellucid.records.attention import HandSetModel, Matrix, PositionsShown

Colours = tuple[tuple[str, ...], ...]  # an image by its rows of colours, such as #ff8800


class Attended(NamedTuple):
    """One kind of attention in a network: who asks, who is asked, and the weights of every head."""

    says: str  # "self-attention", or of which part
    askers: tuple[str, ...]  # tokens
    asked: tuple[str, ...]
    layers: tuple[tuple[Matrix, ...], ...]  # by layer and head; a row for each asker, which sums to one


class AttentionMaps(NamedTuple):
    """What every head of a network attends to while it reads one input."""

    source: str
    parts: tuple[Attended, ...]


class MaskShown(NamedTuple):
    """A mask in its three forms. A row for each position that asks."""

    name: str
    says: str
    seen: tuple[tuple[bool, ...], ...]
    added: Matrix  # "wei": 0 where a key may be seen and -inf where not
    weights: Matrix  # the softmax of that


class MasksShown(NamedTuple):
    """Masks side by side, of equal size."""

    masks: tuple[MaskShown, ...]


class GivenWeights(NamedTuple):
    """What attention made of it with one scale."""

    scale: float
    weights: Matrix
    farthest: float  # the largest difference to what was wanted


class GivenAttention(NamedTuple):
    """Attention that was told what to do, and how near it came."""

    name: str
    says: str
    wanted: Matrix
    tried: tuple[GivenWeights, ...]


class GivenShown(NamedTuple):
    """Attention as the identity, as a permutation and as a convolution, with several scales."""

    source: str
    attentions: tuple[GivenAttention, ...]


class PositionKinds(NamedTuple):
    """Kinds of positions side by side, over equally many tokens."""

    source: str
    kinds: tuple[PositionsShown, ...]


class HandSetShown(NamedTuple):
    """The exam's model and its variants, on one example."""

    variants: tuple[HandSetModel, ...]


class PatchesShown(NamedTuple):
    """An image and the patches that it is cut into."""

    source: str
    pixels: Colours
    patch: int  # the side of one, in pixels
    channels: int

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return len(self.pixels) // self.patch, len(self.pixels[0]) // self.patch


class PatchPositions(NamedTuple):
    """How alike the learned positions of a vision transformer are: cosines, by patch and patch."""

    source: str
    grid: tuple[int, int]
    cosines: Matrix
    neighbours: float  # the mean cosine of patches that touch, above, below or beside
    others: float  # that of all other pairs


class PatchAttention(NamedTuple):
    """What the class token of a vision transformer attends to in one image."""

    source: str
    answer: str  # what the network says it is, and what it is
    pixels: Colours
    grid: tuple[int, int]
    layers: tuple[tuple[tuple[float, ...], ...], ...]  # by layer and head: the weight of the class token, then patches
    rollout: tuple[float, ...]  # through all layers: the class token's share, then that of each patch
