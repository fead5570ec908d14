"""A small network library on numbers that remember: neurons, layers of them, and layers in a row.

>>> model = ScalarMLP(2, [16, 16, 1], activation="relu", seed=1)
>>> len(model.parameters())
337
>>> model.layers[0].neurons[2].weights[1].name
'layer1.neuron3.w2'
"""

import random
from collections.abc import Sequence

from pellucid.autograd.rules import RELU, SIGMOID, TANH, Rule
from pellucid.autograd.value import Number, Value, apply, constant, maximum, total
from pellucid.errors import PellucidError, require_one_of

# What a neuron does with its sum; None leaves it as it is.
ACTIVATIONS: dict[str, Rule | None] = {"tanh": TANH, "relu": RELU, "sigmoid": SIGMOID, "linear": None}


class Neuron:
    """activation(w1·x1 + w2·x2 + … + b): one product for each input, one sum, one activation.

    The first weights are uniform with variance 1/n_inputs, so that the sum is about as large as one input;
    the bias begins at zero. `rng` is used up weight by weight.

    >>> neuron = Neuron(2, activation="linear", rng=random.Random(0))
    >>> neuron.weights[0].data, neuron.weights[1].data, neuron.bias.data = 2.0, -1.0, 0.5
    >>> neuron([3.0, 4.0]).data
    2.5
    """

    def __init__(self, n_inputs: int, *, activation: str, rng: random.Random, name: str = "neuron") -> None:
        _require_size(n_inputs, "number of inputs", name)
        require_one_of("activation", activation, ACTIVATIONS)
        self.rule = ACTIVATIONS[activation]
        self.name = name
        reach = (3.0 / n_inputs) ** 0.5
        self.weights = [Value(rng.uniform(-reach, reach), f"{name}.w{i + 1}") for i in range(n_inputs)]
        self.bias = Value(0.0, f"{name}.b")

    def __call__(self, inputs: Sequence[Number]) -> Value:
        if len(inputs) != len(self.weights):
            raise PellucidError(
                f"{len(inputs)} numbers came where {len(self.weights)} are wanted",
                where=f"by {self.name}",
                fix=f"Give it one number for each of its {len(self.weights)} weights",
            )
        score = total([*[w * x for w, x in zip(self.weights, inputs, strict=True)], self.bias])
        return apply(self.rule, score) if self.rule else score

    def parameters(self) -> list[Value]:
        return [*self.weights, self.bias]


class ScalarLayer:
    """Neurons side by side, each looking at all the inputs."""

    def __init__(self, n_inputs: int, width: int, *, activation: str, rng: random.Random, name: str = "layer") -> None:
        _require_size(width, "width", name)
        self.neurons = [
            Neuron(n_inputs, activation=activation, rng=rng, name=f"{name}.neuron{i + 1}") for i in range(width)
        ]

    def __call__(self, inputs: Sequence[Number]) -> list[Value]:
        return [neuron(inputs) for neuron in self.neurons]

    def parameters(self) -> list[Value]:
        return [parameter for neuron in self.neurons for parameter in neuron.parameters()]


class ScalarMLP:
    """Layers in a row, each of the given width. The last is linear unless told otherwise: its sums are the scores.

    seed: a whole number, or a `random.Random` to draw the first weights from. Same seed, same weights.

    >>> model = ScalarMLP(3, [4, 2], seed=0)
    >>> len(model([1.0, 0.5, -1.0])), len(model.parameters())
    (2, 26)
    """

    def __init__(
        self,
        n_inputs: int,
        widths: Sequence[int],
        *,
        activation: str = "tanh",
        last_activation: str = "linear",
        seed: int | random.Random = 0,
    ) -> None:
        if not widths:
            raise PellucidError("a network without layers came", fix="Give at least one width, as MLP(2, [1])")
        rng = seed if isinstance(seed, random.Random) else random.Random(seed)
        self.layers: list[ScalarLayer] = []
        for i, width in enumerate(widths):
            is_last = i == len(widths) - 1
            chosen = last_activation if is_last else activation
            n_before = widths[i - 1] if i else n_inputs
            self.layers.append(ScalarLayer(n_before, width, activation=chosen, rng=rng, name=f"layer{i + 1}"))

    def __call__(self, inputs: Sequence[Number]) -> list[Value]:
        outputs: Sequence[Number] = inputs
        for layer in self.layers:
            outputs = scores = layer(outputs)
        return scores

    def parameters(self) -> list[Value]:
        return [parameter for layer in self.layers for parameter in layer.parameters()]

    def zero_grad(self) -> None:
        """Forget the gradients. `backward()` sets them anew, so this is for `backward(accumulate=True)`."""
        for parameter in self.parameters():
            parameter.grad = 0.0


def _require_size(size: int, what: str, name: str) -> None:
    if size < 1:
        raise PellucidError(f"the {what} is {size}", where=f"in {name}", fix="It has to be at least 1")


# Losses: how wrong a score is, as one number to be made smaller. Each has torch's values and torch's gradients.


def hinge(score: Number, side: Number) -> Value:
    """Zero once the score is on its side (-1 or 1) by a margin of one, then linear: relu(1 - side·score).

    >>> hinge(0.25, 1).data, hinge(0.25, -1).data, hinge(3.0, 1).data
    (0.75, 1.25, 0.0)
    """
    return (1.0 - constant(side) * score).relu()


def squared_error(score: Number, target: Number) -> Value:
    """The square of the distance between them.

    >>> squared_error(3.0, 1.0).data
    4.0
    """
    distance = constant(score) - target
    return distance * distance


def cross_entropy(scores: Sequence[Number], target: int) -> Value:
    """What softmax leaves the target to be surprised by, in nats: -log(exp(score) / Σ exp(scores)).

    The largest score is taken out of the exponentials, so none overflows. It is a node of the graph and not a
    number read from it: the gradients along its two ways cancel, and a replay finds the largest anew.

    >>> round(cross_entropy([2.0, 1.0, 0.1], 0).data, 6)
    0.41703
    >>> cross_entropy([1000.0, 0.0], 1).data
    1000.0
    """
    if not 0 <= target < len(scores):
        raise PellucidError(
            f"the target is class {target} and there are {len(scores)} scores",
            where="in cross_entropy",
            fix=f"Classes count from 0 to {len(scores) - 1}" if scores else "Give one score for each class",
        )
    largest = maximum(*scores)
    rest = [score - largest for score in scores]
    return total([difference.exp() for difference in rest]).log() - rest[target]


def binary_cross_entropy(score: Number, target: Number) -> Value:
    """The surprise, in nats, that the sigmoid of the score leaves a target between 0 (no) and 1 (yes).

    Written with softplus on either side, so a sure and right score keeps the digits of its small loss.

    >>> round(binary_cross_entropy(0.0, 1).data, 6)
    0.693147
    >>> binary_cross_entropy(50.0, 1).data
    1.9287498479639178e-22
    """
    score, target = constant(score), constant(target)
    return target * (-score).softplus() + (1.0 - target) * score.softplus()
