"""Linear layers on top of each other are one linear layer: multiply them out and nothing is left of the depth."""

import random

import numpy as np
from numpy.typing import NDArray

from pellucid.autograd import ScalarMLP

WIDTHS = [8, 8, 8, 2]


def multiplied_out(model: ScalarMLP) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The one matrix and the one shift that all layers together are, if none of them bends."""
    n_inputs = len(model.layers[0].neurons[0].weights)
    matrix, shift = np.eye(n_inputs), np.zeros(n_inputs)
    for layer in model.layers:
        weights = np.array([[w.data for w in neuron.weights] for neuron in layer.neurons])
        biases = np.array([neuron.bias.data for neuron in layer.neurons])
        matrix, shift = weights @ matrix, weights @ shift + biases
    return matrix, shift


def furthest_apart(activation: str, n_points: int = 200) -> float:
    """The largest distance between the network's outputs and those of its layers multiplied out."""
    draw = random.Random(0)
    model = ScalarMLP(3, WIDTHS, activation=activation, seed=draw)
    for parameter in model.parameters():
        parameter.data = draw.uniform(-1, 1)
    matrix, shift = multiplied_out(model)
    points = [[draw.uniform(-2, 2) for _ in range(3)] for _ in range(n_points)]
    outputs = np.array([[score.data for score in model(point)] for point in points])
    return float(np.abs(outputs - (np.array(points) @ matrix.T + shift)).max())


def main() -> None:
    n_deep = len(ScalarMLP(3, WIDTHS, activation="linear").parameters())
    n_flat = len(ScalarMLP(3, WIDTHS[-1:]).parameters())
    print(f"4 linear layers of {n_deep} parameters against the one of {n_flat} that they multiply out to, 200 points:")
    print(f"  linear: outputs differ by at most {furthest_apart('linear'):.1e}")
    print(
        f"  tanh:   outputs differ by up to {furthest_apart('tanh'):.1f}; only a bend between layers makes depth count"
    )


if __name__ == "__main__":
    main()
