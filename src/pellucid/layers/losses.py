"""How wrong scores are, and what large weights cost, by name.

    cross-entropy   the surprise at the true class, by softmax
    bce             each class against the rest, by sigmoid
    hinge           what the true class lacks of a lead of 1 over every other
    mse             the square of the distance; of classes, that of their probabilities
    l1              the distance; the same
    huber           the square of a distance below 1, and straight beyond

    l1              Σ|w|
    l2              ½ Σw²
    linf2           ½ max|w|²

A loss is told for each example, without any mean over the batch, so that whoever adds them up knows what was added. A
penalty comes on top of the mean loss, times its strength λ. As weight decay, it is on weights of two dimensions or
more: biases and the gains of norms are free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from pellucid.errors import PellucidError, did_you_mean, quoted

CLASSIFICATION = ("classification",)
OF_NUMBERS = ("regression", "reconstruction")


@dataclass(frozen=True)
class ExampleLoss:
    """One way to be wrong.

    losses: scores (batch, outputs) and targets -> (batch,). Targets are the numbers of the classes, (batch,), or what
    the scores should be, with as many numbers as they have.
    probabilities: scores -> (batch, outputs), each row adding up to 1; None where scores have no such meaning.
    """

    name: str
    description: str
    tasks: tuple[str, ...]
    losses: Callable[[Tensor, Tensor], Tensor]
    probabilities: Callable[[Tensor], Tensor] | None


@dataclass(frozen=True)
class Penalty:
    """One way to make large weights cost something. of: weights, at least one -> a single number."""

    name: str
    description: str
    of: Callable[[list[Tensor]], Tensor]


def cross_entropy_losses(scores: Tensor, classes: Tensor) -> Tensor:
    """-ln of what softmax gives the true class: (batch, classes), (batch,) -> (batch,).

    >>> p = torch.tensor([0.01, 0.0001])  # of the true class
    >>> cross_entropy_losses(torch.stack([1 - p, p], dim=1).log(), torch.tensor([1, 1])).round(decimals=2)
    tensor([4.6100, 9.2100])
    """
    return functional.cross_entropy(scores, classes, reduction="none")


def bce_losses(scores: Tensor, classes: Tensor) -> Tensor:
    """Each class is a question of its own, yes or no; the mean of their cross-entropies: (batch, classes) -> (batch,).

    Each score goes through a sigmoid, so that none needs the others. At scores of 0 it is ln 2, whatever the classes.

    >>> bce_losses(torch.tensor([[0.0, 0.0, 0.0]]), torch.tensor([2]))
    tensor([0.6931])
    """
    truths = functional.one_hot(classes, scores.shape[1]).to(scores.dtype)
    return functional.binary_cross_entropy_with_logits(scores, truths, reduction="none").mean(1)


def shares_of_yes(scores: Tensor) -> Tensor:
    """Sigmoid of each score, brought to a sum of 1: (batch, classes) -> the same.

    sigmoid / Σ sigmoid = softmax of ln sigmoid, which holds also where every sigmoid is too small for its float.

    >>> shares_of_yes(torch.tensor([[0.0, 0.0], [-200.0, -201.0]])).round(decimals=4)
    tensor([[0.5000, 0.5000],
            [0.7311, 0.2689]])
    """
    return functional.logsigmoid(scores).softmax(1)


def hinge_losses(scores: Tensor, classes: Tensor) -> Tensor:
    """max(0, 1 + the best other score - the true score): Crammer and Singer 2001; (batch, classes) -> (batch,).

    For two classes that is the usual max(0, 1 - y·s) with the side y = ±1 and the lead s = score₁ - score₀. Other than
    the sum over all rivals (Weston and Watkins 1999, torch's `multi_margin_loss`), it is 1 at scores of 0, whatever the
    number of classes.

    >>> hinge_losses(torch.tensor([[2.0, 0.5, 1.5], [0.0, 0.0, 3.0]]), torch.tensor([0, 2]))
    tensor([0.5000, 0.0000])
    """
    true = scores.gather(1, classes[:, None])
    rivals = scores.scatter(1, classes[:, None], float("-inf"))
    return (1 + rivals.amax(1) - true[:, 0]).relu()


def mse_losses(scores: Tensor, targets: Tensor) -> Tensor:
    """The mean square of the distances in each row: (batch, outputs) -> (batch,).

    >>> mse_losses(torch.tensor([[0.01], [0.1]]), torch.tensor([1.0, 1.0]))  # a probability, where the truth is 1
    tensor([0.9801, 0.8100])
    """
    return (scores - _like(scores, targets)).square().mean(1)


def l1_losses(scores: Tensor, targets: Tensor) -> Tensor:
    """The mean distance in each row: (batch, outputs) -> (batch,).

    >>> l1_losses(torch.tensor([[0.0, 3.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([1.5000])
    """
    return (scores - _like(scores, targets)).abs().mean(1)


def huber_losses(scores: Tensor, targets: Tensor) -> Tensor:
    """The mean of half the square of distances below 1, and of the distance - ½ beyond: (batch, outputs) -> (batch,).

    >>> huber_losses(torch.tensor([[0.0, 3.0]]), torch.tensor([[0.5, 1.0]]))  # 1/8 and 3/2
    tensor([0.8125])
    """
    return functional.huber_loss(scores, _like(scores, targets), reduction="none").mean(1)


def _like(scores: Tensor, targets: Tensor) -> Tensor:
    # (batch, 1) - (batch,) would silently become (batch, batch).
    assert len(targets) == len(scores), f"{len(targets)} targets for {len(scores)} rows of scores"
    return targets.reshape(scores.shape)


def _softmax(scores: Tensor) -> Tensor:
    return scores.softmax(1)


# In this order: the first that fits a task is what is taken for it unless another is asked for.
LOSSES: Mapping[str, ExampleLoss] = MappingProxyType(
    {
        loss.name: loss
        for loss in (
            ExampleLoss(
                "cross-entropy",
                "the surprise at the true class, in nats, when scores are made probabilities by softmax",
                CLASSIFICATION,
                cross_entropy_losses,
                _softmax,
            ),
            ExampleLoss(
                "bce",
                "each class against the rest as a question of its own, yes or no, by sigmoid",
                CLASSIFICATION,
                bce_losses,
                shares_of_yes,
            ),
            ExampleLoss(
                "hinge",
                "what the true class lacks of a lead of 1 over every other; its scores are no probabilities",
                CLASSIFICATION,
                hinge_losses,
                None,
            ),
            ExampleLoss("mse", "the square of the distance, which asks for the mean", OF_NUMBERS, mse_losses, None),
            ExampleLoss(
                "l1",
                "the distance itself, which asks for the median and minds outliers less",
                OF_NUMBERS,
                l1_losses,
                None,
            ),
            ExampleLoss(
                "huber",
                "the square of small distances and the distance itself of large ones, by which outliers pull less",
                OF_NUMBERS,
                huber_losses,
                None,
            ),
        )
    }
)


def squared_probability_losses(scores: Tensor, classes: Tensor) -> Tensor:
    """The mean square of what each probability of softmax is off: Brier 1950; (batch, classes) -> (batch,).

    >>> p = torch.tensor([0.01, 0.1])  # of the true one of two classes
    >>> squared_probability_losses(torch.stack([1 - p, p], dim=1).log(), torch.tensor([1, 1])).round(decimals=4)
    tensor([0.9801, 0.8100])
    """
    return mse_losses(scores.softmax(1), functional.one_hot(classes, scores.shape[1]).to(scores.dtype))


def absolute_probability_losses(scores: Tensor, classes: Tensor) -> Tensor:
    """The mean of what each probability of softmax is off: (batch, classes) -> (batch,).

    >>> absolute_probability_losses(torch.zeros(1, 2), torch.tensor([1]))
    tensor([0.5000])
    """
    return l1_losses(scores.softmax(1), functional.one_hot(classes, scores.shape[1]).to(scores.dtype))


# Losses of numbers, taken for classes: of the probabilities that softmax makes of the scores.
ON_PROBABILITIES: Mapping[str, ExampleLoss] = MappingProxyType(
    {
        loss.name: loss
        for loss in (
            ExampleLoss(
                "mse",
                "the square of what each probability is off, flat where the answer is sure and wrong",
                CLASSIFICATION,
                squared_probability_losses,
                _softmax,
            ),
            ExampleLoss(
                "l1",
                "what each probability is off, flat where the answer is sure, right or wrong",
                CLASSIFICATION,
                absolute_probability_losses,
                _softmax,
            ),
        )
    }
)


def slope_beside_cross_entropy(name: str, p: float) -> float:
    """How steep a loss of classes is where the true one of two has the probability p: a part of cross-entropy's slope.

    >>> round(slope_beside_cross_entropy("mse", 0.01), 4), round(slope_beside_cross_entropy("l1", 0.01), 4)
    (0.0198, 0.01)
    """
    scores = torch.tensor([[0.0, math.log(p / (1 - p))]], dtype=torch.float64, requires_grad=True)
    loss, usual = (
        torch.autograd.grad(find_example_loss(each, "classification").losses(scores, torch.tensor([1])).sum(), scores)
        for each in (name, "cross-entropy")
    )
    return (loss[0][0, 1] / usual[0][0, 1]).item()


def l1(weights: list[Tensor]) -> Tensor:
    """Σ|w|.

    >>> l1([torch.tensor([[3.0, -4.0]])])
    tensor(7.)
    """
    return torch.stack([weight.abs().sum() for weight in weights]).sum()


def l2(weights: list[Tensor]) -> Tensor:
    """½ Σw²: its gradient is w itself, so that λ is what weight decay is to SGD.

    >>> l2([torch.tensor([[3.0, -4.0]])])
    tensor(12.5000)
    """
    return torch.stack([weight.square().sum() for weight in weights]).sum() / 2


def linf2(weights: list[Tensor]) -> Tensor:
    """½ max|w|²: only the weight that is largest in size is pulled, by as much as it is.

    Where several are equally large, any mixture of their pulls is a subgradient, and torch's `amax` takes a fair one.

    >>> weight = torch.tensor([[3.0, -4.0]], requires_grad=True)
    >>> linf2([weight]).backward()
    >>> weight.grad
    tensor([[ 0., -4.]])
    """
    return torch.stack([weight.abs().amax() for weight in weights]).amax().square() / 2


PENALTIES: Mapping[str, Penalty] = MappingProxyType(
    {
        penalty.name: penalty
        for penalty in (
            Penalty("l1", "Σ|w|: every weight is pulled to 0 equally hard, and many end there", l1),
            Penalty("l2", "½ Σw²: each weight is pulled by as much as it is", l2),
            Penalty("linf2", "½ max|w|²: the largest weight alone is pulled, until others are as large", linf2),
        )
    }
)


def losses_for(task: str) -> tuple[str, ...]:
    """The names of what can be made small for a task, the usual one first.

    >>> losses_for("regression")
    ('mse', 'l1', 'huber')
    """
    also = ON_PROBABILITIES if task in CLASSIFICATION else {}
    return (*[name for name, loss in LOSSES.items() if task in loss.tasks], *also)


def find_example_loss(name: str, task: str) -> ExampleLoss:
    """The loss of this name, if it fits the task (classification, regression or reconstruction).

    >>> find_example_loss("hinge", "regression")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: hinge is no loss for regression. Choose mse, l1 or huber.
    """
    fitting = losses_for(task)
    if name not in LOSSES:
        raise _unknown("loss", name, fitting)
    if name not in fitting:
        raise PellucidError(f"{name} is no loss for {task}", fix=f"Choose {_either(fitting)}")
    return LOSSES[name] if task in LOSSES[name].tasks else ON_PROBABILITIES[name]


def penalty(name: str, parameters: Iterable[Tensor]) -> Tensor:
    """What these parameters cost, those of one dimension left out; 0 where none is left.

    >>> layer = torch.nn.Linear(2, 1)
    >>> bool(penalty("l1", layer.parameters()) == layer.weight.abs().sum())
    True
    """
    if name not in PENALTIES:
        raise _unknown("penalty", name, tuple(PENALTIES))
    weights = [parameter for parameter in parameters if parameter.ndim >= 2 and parameter.numel()]
    return PENALTIES[name].of(weights) if weights else torch.zeros(())


def _unknown(noun: str, name: str, known: tuple[str, ...]) -> PellucidError:
    fix = did_you_mean(name, known, f"Choose {_either(known)}")
    return PellucidError(f"there is no {noun} called {quoted(name)}", fix=fix)


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
