"""Sensitivity of attention: how weights and outputs move when one key or query does, measured and by the derivative.

With weights a_ij = softargmax_j(β q_i · k_j) and outputs h_i = Σ_j a_ij v_j, to first order:

    key k_j + ε         h_i moves by  β (q_i · ε) a_ij (v_j - h_i)             every output that sees the key
    query q_i + ε       h_i moves by  β Σ_j a_ij (ε · (k_j - k̄_i)) v_j         its own output and no other
    key α · k_j         h_i moves by  (α - 1) β (q_i · k_j) a_ij (v_j - h_i)   towards v_j where the score is positive

where k̄_i = Σ_j a_ij k_j. Tests hold these formulas, the derivatives and the measured changes against one another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.errors import PellucidError
from pellucid.figures.charts.matrix import balance_key, balanced_colours, heat_map, largest_difference, weight_map
from pellucid.figures.charts.svg import INK, move_marks, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import join_words, rough
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option
from pellucid.records.answers import Matrix, as_matrix

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.layers.attention import Scale
    from pellucid.layers.masks import Mask

CELL, GAP = 46.0, 40.0


class AttentionChange(NamedTuple):
    """What was added to the weights, (n, m), and to the outputs, (n, t)."""

    weights: Tensor
    outputs: Tensor


class Sensitivity(NamedTuple):
    """What a change of one vector does to the attention of n queries to m keys."""

    before: AttentionChange  # the weights and outputs themselves, from nothing
    measured: AttentionChange  # what the change really adds
    predicted: AttentionChange  # what the derivative says that it adds; the smaller the change, the nearer
    reach: Tensor  # (n,) the most that each output moves for a change of length 1; exactly 0 where it cannot move

    @property
    def can_move(self) -> Tensor:
        """Which outputs depend on that vector at all: (n,)."""
        return self.reach > 0


class SensitivityStudy(NamedTuple):
    """What a small change of one key does to causal attention."""

    source: str
    key: int  # which one moved, from 0
    length: float  # of the change
    weights: Matrix  # before
    measured: Matrix  # what the change adds to the weights
    predicted: Matrix  # what the derivative says that it adds
    reach: tuple[float, ...]  # the most that each output moves for a change of length 1


@dataclass(frozen=True)
class SensitivityKnobs:
    seed: int = seed_knob()
    time: int = option(6, "Positions.", minimum=2, maximum=16)
    width: int = option(8, "Numbers of each query, key and value.", minimum=1, maximum=1024)
    key: int = option(2, "Which key moves, counted from 0.", minimum=0, maximum=15)
    length: float = option(1.0, "How far it moves.", minimum=0, is_minimum_open=True, maximum=100, example="1")

    def __post_init__(self) -> None:
        check_options(self)
        if self.key >= self.time:
            raise PellucidError(
                f"there is no key {self.key} of {self.time}, counted from 0", fix=f"Choose 0 to {self.time - 1}"
            )


def measure(knobs: SensitivityKnobs) -> SensitivityStudy:
    """Queries, keys and values are drawn at random, and one key moves by a vector of the given length.

    >>> [reach > 0 for reach in measure(SensitivityKnobs()).reach]
    [False, False, True, True, True, True]
    """
    import torch

    from pellucid.layers.masks import CAUSAL

    seed, time, width, key, length = knobs.seed, knobs.time, knobs.width, knobs.key, knobs.length
    rng = torch.Generator().manual_seed(seed)
    queries, keys, values = torch.randn(3, time, width, generator=rng, dtype=torch.float64)
    step = torch.randn(width, generator=rng, dtype=torch.float64)
    found = move_key(queries, keys, values, which=key, by=length * step / step.norm(), mask=CAUSAL)
    return SensitivityStudy(
        source=f"{time} positions, queries, keys and values of {width} numbers drawn at random, seed {seed}",
        key=key,
        length=length,
        weights=as_matrix(found.before.weights),
        measured=as_matrix(found.measured.weights),
        predicted=as_matrix(found.predicted.weights),
        reach=tuple(found.reach.tolist()),
    )


def move_key(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    which: int,
    by: Tensor,
    scale: Scale | None = None,
    mask: Mask | None = None,
) -> Sensitivity:
    """Add `by` to one key: one score of every query changes, and all its weights with it.

    queries: (n, d); keys: (m, d); values: (m, t); by: (d,).

    >>> import torch
    >>> one, zero = torch.ones(1, 1), torch.zeros(1, 1)
    >>> found = move_key(one, torch.cat([zero, zero]), torch.cat([zero, one]), which=1, by=torch.tensor([0.1]))
    >>> [round(found.measured.outputs.item(), 4), round(found.predicted.outputs.item(), 4)]
    [0.025, 0.025]
    """

    def at(key: Tensor) -> AttentionChange:
        return _attend(queries, _replace(keys, which, key), values, scale, mask)

    return _sensitivity(at, keys[which], by)


def move_query(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    which: int,
    by: Tensor,
    scale: Scale | None = None,
    mask: Mask | None = None,
) -> Sensitivity:
    """Add `by` to one query: it alone asks otherwise, so its own row is all that changes.

    >>> import torch
    >>> draw = torch.Generator().manual_seed(0)
    >>> queries, keys, values = (torch.randn(3, 2, generator=draw) for _ in range(3))
    >>> move_query(queries, keys, values, which=1, by=torch.ones(2)).can_move
    tensor([False,  True, False])
    """

    def at(query: Tensor) -> AttentionChange:
        return _attend(_replace(queries, which, query), keys, values, scale, mask)

    return _sensitivity(at, queries[which], by)


def scale_key(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    which: int,
    factor: float,
    scale: Scale | None = None,
    mask: Mask | None = None,
) -> Sensitivity:
    """Make one key `factor` times as long: scores above 0 rise, those below 0 fall, each in proportion to itself.

    Queries that point its way are drawn to it, in the end wholly; those that point away turn from it.

    >>> import torch
    >>> towards, away = torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0], [0.0]])
    >>> scale_key(towards, away, away, which=0, factor=2.0).measured.weights[:, 0]
    tensor([ 0.1497, -0.1497])
    """
    return move_key(queries, keys, values, which=which, by=(factor - 1) * keys[which], scale=scale, mask=mask)


def _attend(queries: Tensor, keys: Tensor, values: Tensor, scale: Scale | None, mask: Mask | None) -> AttentionChange:
    from pellucid.layers.attention import attention_weights, inverse_root
    from pellucid.layers.masks import EVERYTHING

    weights = attention_weights(queries, keys, scale=scale or inverse_root, mask=mask or EVERYTHING)
    return AttentionChange(weights, weights @ values)


def _replace(vectors: Tensor, which: int, vector: Tensor) -> Tensor:
    import torch

    is_that_one = torch.arange(len(vectors), device=vectors.device)[:, None] == which
    return torch.where(is_that_one, vector, vectors)


def _sensitivity(at: Callable[[Tensor], AttentionChange], here: Tensor, by: Tensor) -> Sensitivity:
    import torch

    before, after = at(here), at(here + by)
    slopes = torch.func.jacrev(at)(here)  # of the weights (n, m, d), of the outputs (n, t, d)
    return Sensitivity(
        before,
        measured=AttentionChange(after.weights - before.weights, after.outputs - before.outputs),
        predicted=AttentionChange(slopes.weights @ by, slopes.outputs @ by),
        reach=torch.linalg.matrix_norm(slopes.outputs, ord=2),
    )


def draw(record: SensitivityStudy) -> Picture:
    """The weights before, what the change adds to them, and what the derivative says."""
    numbers = [str(i + 1) for i in range(len(record.weights))]
    most = max([abs(change) for rows in (record.measured, record.predicted) for row in rows for change in row])
    measured, predicted = [
        heat_map(rows, balanced_colours(most or 1.0), CELL, numbers, numbers, written=_with_sign)
        for rows in (record.measured, record.predicted)
    ]
    stations = (
        ("weights before", weight_map(record.weights, CELL, numbers)),
        ("added, measured", measured),
        ("added, by the derivative", predicted),
    )
    marks = balance_key("change: below 0", "above 0")
    left = 0.0
    for heading, drawn in stations:
        marks.append(svg_text(left + drawn.left, 62, heading, INK, is_bold=True, size=19))
        marks += move_marks(drawn.marks, left, 74)
        left += max(drawn.width, drawn.left + 250.0) + GAP
    title = f"What moving key {record.key + 1} does to attention"
    return picture(title, _captions(record), marks, left - GAP, 74 + stations[0][1].height)


def _with_sign(change: float) -> str:
    """
    >>> _with_sign(0.123), _with_sign(-0.05), _with_sign(0.0)
    ('+.12', '−.05', '0')
    """
    return f"{change:+.2f}".replace("0.", ".").replace("-", "−") if change else "0"


def _captions(record: SensitivityStudy) -> list[str]:
    largest = max([abs(change) for row in record.measured for change in row])
    still = [str(i + 1) for i, reach in enumerate(record.reach) if reach == 0]
    farthest = max(range(len(record.reach)), key=lambda i: record.reach[i])
    said = [
        f"{record.source}. Key {record.key + 1} moves by a vector of length {record.length:g}. "
        "Rows ask, columns are asked.",
        f"The largest change of a weight is {rough(largest)}; measured and by the "
        f"derivative differ by at most {rough(largest_difference(record.measured, record.predicted))}.",
        f"For a change of length 1 the output of position {farthest + 1} moves most, by up to "
        f"{rough(record.reach[farthest])}.",
    ]
    if still:
        said.append(f"Not moved at all, since the mask hides that key from them: {join_words(still)}.")
    return said


LESSON = Lesson(
    name="sensitivity",
    summary="What moving one key does to the weights of attention, as measured and as the derivative says.",
    measure=measure,
    draw=draw,
    knobs=SensitivityKnobs,
)
