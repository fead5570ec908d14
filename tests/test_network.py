"""Neurons, layers and networks: as torch computes them, with names, the same for the same seed."""

import random

import pytest
import torch

from pellucid.autograd.nn import ACTIVATIONS, Neuron, ScalarLayer, ScalarMLP
from pellucid.autograd.value import Value, total
from pellucid.errors import PellucidError


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_values_and_gradients_are_torchs(activation: str) -> None:
    model = ScalarMLP(3, [5, 4, 2], activation=activation, seed=7)
    points = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]
    loss = total([score * score for point in points for score in model(point)])
    loss.backward()

    functions = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid, "linear": lambda x: x}
    twins, hidden = [], torch.tensor(points, dtype=torch.float64)
    for i, layer in enumerate(model.layers):
        weights = torch.tensor([[w.data for w in n.weights] for n in layer.neurons], dtype=torch.float64)
        biases = torch.tensor([n.bias.data for n in layer.neurons], dtype=torch.float64)
        twins.append((weights.requires_grad_(), biases.requires_grad_()))
        hidden = hidden @ weights.T + biases
        hidden = functions[activation](hidden) if i < len(model.layers) - 1 else hidden
    (hidden * hidden).sum().backward()
    assert loss.data == pytest.approx((hidden * hidden).sum().item(), rel=1e-12)
    for layer, (weights, biases) in zip(model.layers, twins, strict=True):
        for j, neuron in enumerate(layer.neurons):
            assert [w.grad for w in neuron.weights] == pytest.approx(weights.grad[j].tolist(), rel=1e-12, abs=1e-14)
            assert neuron.bias.grad == pytest.approx(biases.grad[j].item(), rel=1e-12, abs=1e-14)


def test_a_neuron_is_its_products_and_one_sum() -> None:
    neuron = Neuron(2, activation="relu", rng=random.Random(0), name="n")
    out = neuron([1.0, 2.0])
    assert [out.rule.name, out.parents[0].rule.name] == ["relu", "sum"]
    assert [parent.rule.name for parent in out.parents[0].parents] == ["multiply", "multiply", "input"]


def test_parameters_have_names_of_their_own() -> None:
    names = [parameter.name for parameter in ScalarMLP(2, [16, 16, 1], activation="relu").parameters()]
    assert len(names) == len(set(names)) == 337
    assert names[:3] == ["layer1.neuron1.w1", "layer1.neuron1.w2", "layer1.neuron1.b"]
    assert names[-1] == "layer3.neuron1.b"


def test_same_seed_same_weights() -> None:
    def weights(seed: int | random.Random) -> list[float]:
        return [parameter.data for parameter in ScalarMLP(2, [3, 1], seed=seed).parameters()]

    assert weights(5) == weights(5) == weights(random.Random(5)) != weights(6)


def test_zero_grad_forgets() -> None:
    model = ScalarMLP(1, [1], seed=0)
    model([Value(2.0)])[0].backward()
    assert [p.grad for p in model.parameters()] == [2.0, 1.0]
    model.zero_grad()
    assert [p.grad for p in model.parameters()] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ScalarMLP(2, []), "a network without layers came. Give at least one width, as MLP(2, [1])."),
        (lambda: ScalarMLP(0, [1]), "the number of inputs is 0 in layer1.neuron1. It has to be at least 1."),
        (lambda: ScalarMLP(2, [3, 0]), "the width is 0 in layer2. It has to be at least 1."),
        (
            lambda: ScalarMLP(2, [1, 1], activation="rleu"),
            "there is no activation called 'rleu'. Perhaps you meant relu.",
        ),
        (
            lambda: ScalarLayer(1, 1, activation="qqq", rng=random.Random(0)),
            "there is no activation called 'qqq'. Choose one of tanh, relu, sigmoid, linear.",
        ),
        (
            lambda: ScalarMLP(2, [1])([1.0]),
            "1 numbers came where 2 are wanted by layer1.neuron1. Give it one number for each of its 2 weights.",
        ),
    ],
)
def test_mistakes_are_named_with_a_fix(build: object, message: str) -> None:
    with pytest.raises(PellucidError) as mistake:
        build()  # type: ignore[operator]
    assert str(mistake.value) == message
