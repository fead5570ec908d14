"""A decoder that sorts and drops doubles, with every matrix set by hand: small enough to compute on paper.

One layer, one head, no feed-forward, no residual, no positions; the embedding is also what scores are read off with:

    X = E[tokens],  Q = X·W_Q,  K = X·W_K,  V = X·W_V,  Z = A·V,  logits = Z·W_O·Eᵀ

A is causal attention at temperature zero, all weight on the best keys, shared among equals; or softargmax at T = √d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.errors import PellucidError, quoted
from pellucid.figures.charts.matrix import HeatMap, largest_difference, weight_key, weight_map
from pellucid.figures.charts.svg import INK, QUIET, move_marks, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.lessons.lesson import Lesson
from pellucid.options import check_options, option
from pellucid.records.answers import Matrix, as_matrix

if TYPE_CHECKING:
    from torch import Tensor

CELL, GAP = 46.0, 48.0


VOCABULARY = ("A", "B", "C", "D", "START", "STOP")
EXAMPLE = ("D", "A", "A", "START", "A", "D", "STOP")
EMBEDDING = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 0), (0, 0, 0, 0))
PROJECTION = ((0, 3), (1, 2), (2, 1), (3, 0))  # W_Q = W_K = W_V
COMBINATION = ((0, 1, 0, 1), (1, 0, 1, 0))  # W_O
IDENTITY = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))  # W_O of the variant with two heads


class HandSetPass(NamedTuple):
    """A decoder of one layer on one example, with every number on the way from tokens to loss."""

    description: str  # how it attends, and with how many heads
    tokens: tuple[str, ...]
    vocabulary: tuple[str, ...]
    n_input: int  # tokens up to START and with it; those behind it are the output
    attention: Matrix  # of the first head; the heads are alike
    z: Matrix  # what each position gathered, heads side by side
    logits: Matrix  # tokens × vocabulary
    probabilities: Matrix
    own: tuple[float, ...]  # of each output token, scored at its own position, which has already seen it
    before: tuple[float, ...]  # of each output token, scored one position before, as a decoder must
    unshifted_loss: float  # -Σ ln own
    shifted_loss: float  # -Σ ln before


class HandSetVariants(NamedTuple):
    """The decoder and its variants, on one example."""

    variants: tuple[HandSetPass, ...]


class HandSetDecoder:
    """tokens: (..., time) -> logits: (..., time, vocab). A gradient can be asked for each of its matrices.

    combination: W_O, a row for each number of each head. The heads begin alike, all with the same matrices.

    >>> import torch
    >>> HandSetDecoder(is_hard=True)(torch.tensor([3, 0])).tolist()
    [[0.0, 3.0, 0.0, 3.0, 0.0, 0.0], [3.0, 0.0, 3.0, 0.0, 0.0, 0.0]]
    """

    def __init__(self, *, is_hard: bool, combination: Sequence[Sequence[int]] = COMBINATION) -> None:
        import torch

        def matrix(numbers: Sequence[Sequence[int]], *repeats: int) -> Tensor:
            return torch.tensor(numbers, dtype=torch.float64).repeat(*repeats).requires_grad_()

        self.is_hard = is_hard
        n_heads = len(combination) // len(PROJECTION[0])
        self.embedding = matrix(EMBEDDING, 1, 1)
        # (heads, 4, 2) each
        self.queries, self.keys, self.values = (matrix(PROJECTION, n_heads, 1, 1) for _ in range(3))
        self.combination = matrix(combination, 1, 1)

    def __call__(self, tokens: Tensor) -> Tensor:
        return self.score(self.attend(tokens)[0])

    def named_matrices(self) -> dict[str, Tensor]:
        """Everything that could be learned."""
        return {
            "embedding": self.embedding,
            "queries": self.queries,
            "keys": self.keys,
            "values": self.values,
            "combination": self.combination,
        }

    def attend(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Z, heads side by side, (..., time, heads · 2), and the attention matrices, (..., heads, time, time)."""
        from pellucid.layers.attention import attention_weights
        from pellucid.layers.masks import CAUSAL
        from pellucid.layers.softargmax import hardargmax, softargmax

        stream = self.embedding[tokens].unsqueeze(-3)  # (..., 1, time, 4): all heads read the same
        queries, keys, values = stream @ self.queries, stream @ self.keys, stream @ self.values  # (..., heads, time, 2)
        weights = attention_weights(queries, keys, mask=CAUSAL, choose=hardargmax if self.is_hard else softargmax)
        return (weights @ values).transpose(-3, -2).flatten(-2), weights

    def score(self, z: Tensor) -> Tensor:
        """(..., time, heads · 2) -> logits, (..., time, vocab)."""
        return z @ self.combination @ self.embedding.t()


@dataclass(frozen=True)
class HandSetKnobs:
    input: str = option(
        " ".join(EXAMPLE), "Tokens with blanks between them; START begins the output.", value_name="TOKENS"
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: HandSetKnobs) -> HandSetVariants:
    """The decoder, the same with softargmax, and the same with two heads and W_O = the identity.

    >>> [(each.description, round(each.unshifted_loss, 4)) for each in measure(HandSetKnobs()).variants]
    [('hard', 4.2114), ('softargmax, T = √2', 4.2131), ('hard, two heads, W_O = I', 10.2114)]
    """
    tokens = knobs.input.split()
    return HandSetVariants(
        (
            trace_pass(HandSetDecoder(is_hard=True), "hard", tokens),
            trace_pass(HandSetDecoder(is_hard=False), "softargmax, T = √2", tokens),
            trace_pass(HandSetDecoder(is_hard=True, combination=IDENTITY), "hard, two heads, W_O = I", tokens),
        )
    )


def trace_pass(model: HandSetDecoder, description: str, tokens: Sequence[str] = EXAMPLE) -> HandSetPass:
    """Every number on the way from the tokens to the loss on what follows START.

    `unshifted_loss` scores each output token at its own position, where it has already been read. A decoder has to
    score it one position before, and that is `shifted_loss`.

    >>> found = trace_pass(HandSetDecoder(is_hard=True), "hard")
    >>> [round(p, 4) for p in found.own], round(found.unshifted_loss, 4), round(found.shifted_loss, 4)
    ([0.4547, 0.4547, 0.0717], 4.2114, 8.7973)
    """
    import torch

    with torch.no_grad():
        places = encode_tokens(tokens)
        n_input = list(tokens).index("START") + 1
        z, weights = model.attend(places)
        logits = model.score(z)
        probabilities = logits.softmax(-1)
    outputs = range(n_input, len(tokens))
    own = tuple([float(probabilities[at, places[at]]) for at in outputs])
    before = tuple([float(probabilities[at - 1, places[at]]) for at in outputs])
    return HandSetPass(
        description=description,
        tokens=tuple(tokens),
        vocabulary=VOCABULARY,
        n_input=n_input,
        attention=as_matrix(weights[0]),
        z=as_matrix(z),
        logits=as_matrix(logits),
        probabilities=as_matrix(probabilities),
        own=own,
        before=before,
        unshifted_loss=-float(torch.tensor(own, dtype=torch.float64).log().sum()),
        shifted_loss=-float(torch.tensor(before, dtype=torch.float64).log().sum()),
    )


def encode_tokens(tokens: Sequence[str]) -> Tensor:
    """Each token's row of the embedding. There has to be one START, and something behind it.

    >>> encode_tokens(["B", "START", "B", "STOP"])
    tensor([1, 4, 1, 5])
    """
    import torch

    for token in tokens:
        if token not in VOCABULARY:
            raise PellucidError(f"{quoted(token)} is no token of this model", fix=f"It has {', '.join(VOCABULARY)}")
    if list(tokens).count("START") != 1 or tokens[-1] == "START":
        raise PellucidError(
            f"{quoted(' '.join(tokens))} has no one START with an output behind it", fix=f"Try {' '.join(EXAMPLE)}"
        )
    return torch.tensor([VOCABULARY.index(token) for token in tokens])


def draw(record: HandSetVariants) -> Picture:
    """A column for each variant: what each token attends to, and below it the chances of the output tokens."""
    marks = weight_key("no weight")
    left = bottom = 0.0
    for model in record.variants:
        column, drawn, height = _column(model)
        marks += move_marks(column, left, 44)
        left, bottom = left + max(drawn.width, drawn.left + 360.0) + GAP, max(bottom, 44 + height)
    title = "A decoder set by hand: what a sorter attends to"
    return picture(title, _captions(record), marks, left - GAP, bottom)


def _column(model: HandSetPass) -> tuple[list[str], HeatMap, float]:
    drawn = weight_map(model.attention, CELL, model.tokens)
    indent = drawn.left
    marks = [svg_text(indent, 18, model.description, INK, is_bold=True, size=19), *move_marks(drawn.marks, 0, 36)]
    top = 36 + drawn.height + 30
    marks.append(svg_text(indent, top, "probability of each output token", INK, is_bold=True))
    columns = (indent, indent + 90, indent + 200)
    for x, words in zip(columns, ("token", "at its place", "one before"), strict=True):
        marks.append(svg_text(x, top + 26, words, QUIET))
    for token, own, before in zip(model.tokens[model.n_input :], model.own, model.before, strict=True):
        top += 24
        for x, words in zip(columns, (token, f"{own:.4f}", f"{before:.4f}"), strict=True):
            marks.append(svg_text(x, top + 26, words, INK))
    marks.append(svg_text(columns[0], top + 56, "loss", QUIET))
    marks.append(svg_text(columns[1], top + 56, f"{model.unshifted_loss:.4f}", INK, is_bold=True))
    marks.append(svg_text(columns[2], top + 56, f"{model.shifted_loss:.4f}", INK, is_bold=True))
    return marks, drawn, top + 66


def _captions(record: HandSetVariants) -> list[str]:
    first = record.variants[0]
    said = [f"It reads {' '.join(first.tokens)}: the input up to START, then what it should write."]
    said.append(
        f"Scored at its own place, where it was already read, the output costs {first.unshifted_loss:.4f} nats "
        f"({first.description}); scored one place before, as a decoder has to, {first.shifted_loss:.4f}."
    )
    for other in record.variants[1:]:
        apart = largest_difference(first.attention, other.attention)
        beside = f"no weight differs by more than {apart:.4f}" if apart else "the weights are the same"
        said.append(
            f"{other.description[:1].upper()}{other.description[1:]}: {beside}, "
            f"and the losses are {other.unshifted_loss:.4f} and {other.shifted_loss:.4f}."
        )
    return said


LESSON = Lesson(
    name="hand-set-attention",
    summary="What a decoder that sorts, its matrices set by hand, attends to, and the chances and losses that follow.",
    measure=measure,
    draw=draw,
    knobs=HandSetKnobs,
)
