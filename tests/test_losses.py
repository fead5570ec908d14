"""Each loss is torch's: its value and its gradient, in the middle and far out."""

import math

import pytest
import torch
from torch.nn import functional

from pellucid.autograd.nn import binary_cross_entropy, cross_entropy, hinge, squared_error
from pellucid.autograd.value import Value
from pellucid.errors import PellucidError

SCORES = (-800.0, -20.0, -1.0, -0.3, 0.0, 0.7, 1.0, 30.0, 800.0)


def torch_scores(scores: list[float]) -> torch.Tensor:
    return torch.tensor(scores, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_hinge(score: float, side: float) -> None:
    ours, theirs = Value(score), torch_scores([score])
    loss, wanted = hinge(ours, side), torch.relu(1.0 - side * theirs).sum()
    loss.backward()
    wanted.backward()
    assert (loss.data, ours.grad) == (wanted.item(), theirs.grad.item())


@pytest.mark.parametrize("score", SCORES)
def test_squared(score: float) -> None:
    ours, theirs = Value(score), torch_scores([score])
    loss, wanted = squared_error(ours, 0.25), functional.mse_loss(theirs, torch.tensor([0.25], dtype=torch.float64))
    loss.backward()
    wanted.backward()
    assert (loss.data, ours.grad) == pytest.approx((wanted.item(), theirs.grad.item()), rel=1e-14)


@pytest.mark.parametrize("target", [0, 1, 2])
@pytest.mark.parametrize("scores", [[0.1, -2.0, 1.5], [3.0, 3.0, 3.0], [900.0, -900.0, 0.0], [-1e6, -1e6, -1e6 + 2.0]])
def test_cross_entropy(scores: list[float], target: int) -> None:
    ours, theirs = [Value(score) for score in scores], torch_scores(scores)
    loss, wanted = cross_entropy(ours, target), functional.cross_entropy(theirs, torch.tensor(target))
    loss.backward()
    wanted.backward()
    assert loss.data == pytest.approx(wanted.item(), rel=1e-14, abs=1e-15)
    assert [score.grad for score in ours] == pytest.approx(theirs.grad.tolist(), rel=1e-13, abs=4e-16)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("target", [0.0, 0.25, 1.0])
def test_binary_cross_entropy(score: float, target: float) -> None:
    ours, theirs = Value(score), torch_scores([score])
    wanted_target = torch.tensor([target], dtype=torch.float64)
    loss = binary_cross_entropy(ours, target)
    wanted = functional.binary_cross_entropy_with_logits(theirs, wanted_target)
    loss.backward()
    wanted.backward()
    assert loss.data == pytest.approx(wanted.item(), rel=1e-13)
    # torch's gradient is sigmoid - target, which cannot tell numbers below this.
    assert ours.grad == pytest.approx(theirs.grad.item(), rel=1e-13, abs=2e-16)


def test_undecided_is_a_coin_toss() -> None:
    assert binary_cross_entropy(0.0, 1.0).data == math.log(2)
    assert cross_entropy([5.0, 5.0], 1).data == math.log(2)


def test_a_class_without_a_score_is_named() -> None:
    with pytest.raises(PellucidError) as mistake:
        cross_entropy([1.0, 2.0], 2)
    assert (
        str(mistake.value)
        == "the target is class 2 and there are 2 scores in cross_entropy. Classes count from 0 to 1."
    )
