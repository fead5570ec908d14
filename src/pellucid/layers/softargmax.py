"""From scores to weights: how much of each key a query takes, given how well each answers it.

    softargmax          soft: every key has its part, exp(score / temperature) over the sum of all
    hardargmax          hard: the best key has all, shared equally where several are equally good; queries and keys
                        learn nothing through it, for the best stays the best when it is nudged
    straight_through    the weights of hardargmax with the gradient of softargmax, so that they learn
    GumbelSoftmax       a draw: with noise on the scores each key is the best as often as softargmax says; soft, or
                        hard with the soft one's gradient

Each is a `WeightChoice`: scores (..., n, m), -∞ where a key may not be seen, and a temperature -> weights that sum to
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class WeightChoice(Protocol):
    """What makes weights of scores.

    >>> def second_best(scores, temperature):
    ...     best = torch.nn.functional.one_hot(scores.argmax(-1), scores.shape[-1]).bool()
    ...     return hardargmax(scores.masked_fill(best, -torch.inf), temperature)
    >>> second_best(torch.tensor([[3.0, 1.0, 2.0]]), 1.0)
    tensor([[0., 0., 1.]])
    """

    def __call__(self, scores: Tensor, temperature: float, /) -> Tensor: ...


def softargmax(scores: Tensor, temperature: float = 1.0) -> Tensor:
    """exp(score / temperature) over the sum of all: torch's softmax. The larger the temperature, the more even.

    >>> softargmax(torch.tensor([2.0, 1.0, 0.0]))
    tensor([0.6652, 0.2447, 0.0900])
    """
    return (scores / temperature).softmax(-1)


def hardargmax(scores: Tensor, temperature: float = 1.0) -> Tensor:
    """What softargmax becomes as its temperature goes to 0: all on the best, shared equally among equals.

    >>> hardargmax(torch.tensor([[2.0, 1.0, 0.0], [2.0, 0.0, 2.0]]))
    tensor([[1.0000, 0.0000, 0.0000],
            [0.5000, 0.0000, 0.5000]])
    """
    is_best = (scores == scores.amax(-1, keepdim=True)).to(scores.dtype)
    return is_best / is_best.sum(-1, keepdim=True)


def straight_through(scores: Tensor, temperature: float = 1.0) -> Tensor:
    """The weights of hardargmax, and backwards the gradient of softargmax (Bengio et al. 2013).

    That gradient is of another function than the one computed: good enough to learn by, and no derivative.

    >>> scores = torch.tensor([2.0, 1.0, 0.0], requires_grad=True)
    >>> weights = straight_through(scores)
    >>> weights[0].backward()
    >>> weights.detach(), scores.grad
    (tensor([1., 0., 0.]), tensor([ 0.2227, -0.1628, -0.0599]))
    """
    return _with_gradient_of(hardargmax(scores), softargmax(scores, temperature))


@dataclass(frozen=True, eq=False)
class GumbelSoftmax:
    """softargmax of the scores with Gumbel noise on them (Jang et al. 2017, Maddison et al. 2017).

    Each -log(-log(uniform)) is a draw of it, and with it on the scores key j is the best with exactly the probability
    softargmax(scores)_j. is_hard: all weight on that one, with the gradient of the soft weights, as
    `torch.nn.functional.gumbel_softmax(hard=True)` has it. rng: whose draws; torch's own without it.

    >>> choose = GumbelSoftmax(is_hard=True, rng=torch.Generator().manual_seed(0))
    >>> scores = torch.tensor([2.0, 1.0, 0.0])
    >>> torch.stack([choose(scores, 1.0) for _ in range(1000)]).mean(0)     # softargmax: .665 .245 .090
    tensor([0.6760, 0.2200, 0.1040])
    """

    is_hard: bool = False
    rng: torch.Generator | None = None

    def __call__(self, scores: Tensor, temperature: float, /) -> Tensor:
        # The logarithm of an exponential draw, as torch has it: -log(-log(uniform)) without its rounding at the ends.
        noise = -torch.empty_like(scores, requires_grad=False).exponential_(generator=self.rng).log()
        soft = softargmax(scores + noise, temperature)
        return _with_gradient_of(hardargmax(soft), soft) if self.is_hard else soft


def _with_gradient_of(value: Tensor, soft: Tensor) -> Tensor:
    return value.detach() + (soft - soft.detach())  # soft - soft is exactly 0: the value is not rounded
