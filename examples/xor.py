"""XOR: four points that a hidden layer tells apart, and that no single layer can, whatever its weights."""

from fractions import Fraction

from pellucid.autograd import ScalarMLP, Value, binary_cross_entropy, replay, total

POINTS = [(0, 0), (0, 1), (1, 0), (1, 1)]
ANSWERS = [a ^ b for a, b in POINTS]


def trained(widths: list[int], n_steps: int, rate: float, seed: int) -> tuple[ScalarMLP, float]:
    """A network after plain gradient descent on the four points, and its mean loss in nats."""
    model = ScalarMLP(2, widths, activation="tanh", seed=seed)

    def loss() -> Value:
        losses = [binary_cross_entropy(model(p)[0], answer) for p, answer in zip(POINTS, ANSWERS, strict=True)]
        return total(losses) / len(POINTS)

    fast = replay(loss, parameters=model.parameters())
    numbers = fast.parameters
    for _ in range(n_steps):
        _, gradients = fast.run(parameters=numbers)
        numbers -= rate * gradients
    value = fast.forward(parameters=numbers)
    fast.store()
    return model, value


def margins(w1: Fraction, w2: Fraction, b: Fraction) -> list[Fraction]:
    """How far a single layer's score is on the right side, point by point. All four above zero would solve XOR."""
    return [(w1 * x + w2 * y + b) * (1 if answer else -1) for (x, y), answer in zip(POINTS, ANSWERS, strict=True)]


def main() -> None:
    model, loss = trained([4, 1], n_steps=2000, rate=0.5, seed=1)
    scores = [model(point)[0].data for point in POINTS]
    n_right = sum((score > 0) == bool(answer) for score, answer in zip(scores, ANSWERS, strict=True))
    print(f"with a hidden layer of 4: {n_right} of 4 right, loss {loss:.4f} nats")
    for point, score in zip(POINTS, scores, strict=True):
        print(f"  {point[0]} xor {point[1]}: score {score:+.2f}")

    # The margins are linear in (w1, w2, b), so a sum that is zero at each of these three is zero at all weights.
    units = [(Fraction(1), Fraction(0), Fraction(0)), (Fraction(0), Fraction(1), Fraction(0))]
    sums = [sum(margins(*unit)) for unit in [*units, (Fraction(0), Fraction(0), Fraction(1))]]
    print("without one: the margins are -b, w2+b, w1+b and -(w1+w2+b)")
    print(f"  their sum is {sums[0]}*w1 + {sums[1]}*w2 + {sums[2]}*b: always 0, so they are never all above 0")

    model, loss = trained([1], n_steps=2000, rate=0.5, seed=1)
    weights = ", ".join(f"{parameter.data:.1e}" for parameter in model.parameters())
    print(f"  trained all the same: loss {loss:.6f} nats, a coin toss being ln 2 = 0.693147; weights {weights}")


if __name__ == "__main__":
    main()
