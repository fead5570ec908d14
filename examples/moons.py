"""Two moons: a network of 337 parameters learns to tell 100 points apart in 100 steps, eagerly and replayed."""

import math
import random
import time

from pellucid.autograd import ScalarMLP, Value, hinge, replay, total

N_STEPS = 100
L2 = 1e-4


def moons(n_points: int, noise: float, seed: int) -> tuple[list[tuple[float, float]], list[int]]:
    """Two half circles that reach into each other, and on which of them (-1 or 1) each point lies."""
    draw = random.Random(seed)
    n_upper = n_points // 2
    n_lower = n_points - n_upper
    upper = [math.pi * i / (n_upper - 1) for i in range(n_upper)]
    lower = [math.pi * i / (n_lower - 1) for i in range(n_lower)]
    clean = [(math.cos(t), math.sin(t)) for t in upper] + [(1 - math.cos(t), 0.5 - math.sin(t)) for t in lower]
    points = [(x + draw.gauss(0, noise), y + draw.gauss(0, noise)) for x, y in clean]
    return points, [-1] * n_upper + [1] * n_lower


def main() -> None:
    points, sides = moons(100, noise=0.1, seed=1)
    model = ScalarMLP(2, [16, 16, 1], activation="relu", seed=1)
    parameters = model.parameters()

    def loss() -> Value:
        data = total([hinge(model(point)[0], side) for point, side in zip(points, sides, strict=True)])
        return data / len(points) + L2 * total([p * p for p in parameters])

    def accuracy() -> float:
        right = [(model(point)[0].data > 0) == (side > 0) for point, side in zip(points, sides, strict=True)]
        return sum(right) / len(right)

    print(f"{len(parameters)} parameters, {len(points)} points, accuracy before: {accuracy():.0%}")

    began = time.perf_counter()
    eager = loss()
    eager.backward()
    eager_seconds = time.perf_counter() - began

    began = time.perf_counter()
    fast = replay(loss, parameters=parameters)
    print(f"recorded in {time.perf_counter() - began:.2f} s as {fast.n_instructions} instructions")
    furthest = max(abs(ours - p.grad) for ours, p in zip(fast.gradients, parameters, strict=True))
    print(f"eager and replay differ by {abs(fast.value - eager.data):.1e} in the loss, {furthest:.1e} in the gradients")

    numbers = fast.parameters
    began = time.perf_counter()
    for step in range(N_STEPS):
        value, gradients = fast.run(parameters=numbers)
        numbers -= (1.0 - 0.9 * step / N_STEPS) * gradients
        if step % 20 == 0:
            print(f"  step {step:3}: loss {value:.4f}")
    seconds = (time.perf_counter() - began) / N_STEPS
    value = fast.forward(parameters=numbers)
    fast.store()
    print(f"after {N_STEPS} steps: loss {value:.4f}, accuracy {accuracy():.0%}")
    print(f"one step: {eager_seconds * 1e3:.0f} ms eager, {seconds * 1e3:.2f} ms replayed")


if __name__ == "__main__":
    main()
