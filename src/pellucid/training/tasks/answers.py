"""What a network says of examples, as records: how often it is right, what it confuses, and its worst mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.data.prepare import Examples, ExampleSides, ImagePreparation, TablePreparation
from pellucid.layers.losses import ExampleLoss
from pellucid.records import AnsweredExample, Answers, LatentPoint
from pellucid.training.tasks import metrics

MOST_SHOWN = 24  # examples in a report
MOST_POINTS = 1_000  # of a regression or of a latent picture
MOST_PIXELS = 64 * 64  # of an image in a report

Floats = npt.NDArray[Any]


class Scored(NamedTuple):
    """Examples with what was said and what should have been; of a reconstructor, what was left in between."""

    examples: Examples
    scores: Tensor  # (examples, outputs)
    targets: Tensor  # (examples,), or (examples, features)
    latent: Tensor  # (examples, latent); no columns where there is no narrow place


def preview_texts(sides: ExampleSides, scored: Scored, loss: ExampleLoss) -> tuple[str, ...]:
    """Each example as truth → answer, with the answer's probability where there is one."""
    if sides.task == "reconstruction":
        errors = (scored.scores - scored.targets).square().mean(1)
        return tuple(f"error {error:.3f}" for error in errors.tolist())
    return tuple(
        f"{one.truth} → {one.answer}" + (f" ({one.probability:.2f})" if one.probability is not None else "")
        for one in _describe_answers(sides, scored, loss, np.arange(len(scored.examples)), "dev")
    )


def answers_of(sides: ExampleSides, dev: Scored, test: Scored, loss: ExampleLoss) -> Answers:
    """Everything that is told of the answers on dev, and the numbers on test."""
    shown = _worst(sides, dev, loss)
    common: dict[str, Any] = {
        "n": len(dev.examples),
        "metrics": metrics_of(sides, dev, loss),
        "test_metrics": metrics_of(sides, test, loss) if len(test.examples) else {},
        "examples": _describe_answers(sides, dev, loss, shown, "dev"),
        "n_unknown": sides.n_unknown,
    }
    if sides.task == "reconstruction":
        return Answers(**common, latent=latent_points(sides, dev))
    if sides.task == "regression":
        preparation = sides.preparation
        assert isinstance(preparation, TablePreparation)
        truth, said = (preparation.in_units(part.reshape(-1).numpy()) for part in (dev.targets, dev.scores))
        points = list(zip(truth.tolist(), said.tolist(), strict=True))[:MOST_POINTS]
        return Answers(**common, points=tuple(points))
    classes, likely = dev.targets.numpy(), dev.scores.argmax(1).numpy()
    confusion, calibration = metrics.confusion(likely, classes, sides.classes), None
    if loss.probabilities:
        calibration = metrics.calibration(class_probabilities(dev.scores, loss).max(1), likely == classes)
    return Answers(**common, confusion=confusion, calibration=calibration)


def class_probabilities(scores: Tensor, loss: ExampleLoss) -> Floats:
    """(examples, classes), in double precision, so that small ones do not vanish."""
    assert loss.probabilities is not None, f"{loss.name} has no probabilities"
    found: Floats = loss.probabilities(scores.double()).numpy()
    return found


def metrics_of(sides: ExampleSides, scored: Scored, loss: ExampleLoss) -> dict[str, float]:
    """The numbers by which a network is judged on a side, by name."""
    if sides.task == "classification":
        truth = scored.targets.numpy()
        found = {"accuracy": metrics.accuracy(scored.scores.numpy(), truth)}
        if loss.probabilities:
            found["log loss"] = metrics.log_loss(class_probabilities(scored.scores, loss), truth)
        return found
    said, truth = scored.scores.double().numpy(), scored.targets.double().numpy()
    found = {"R²": metrics.r_squared(said.reshape(truth.shape), truth)}
    if sides.task == "regression":
        preparation = sides.preparation
        assert isinstance(preparation, TablePreparation)
        said, truth = preparation.in_units(said.reshape(-1)), preparation.in_units(truth)
        found["MAE"] = metrics.mean_absolute_error(said, truth)
        found["RMSE"] = metrics.root_mean_squared_error(said, truth)
    return found


def _worst(sides: ExampleSides, scored: Scored, loss: ExampleLoss) -> npt.NDArray[Any]:
    """The examples that are shown: those with the largest loss, the worst first."""
    each = loss.losses(scored.scores, scored.targets)
    return each.argsort(descending=True, stable=True)[:MOST_SHOWN].numpy()


def _describe_answers(
    sides: ExampleSides, scored: Scored, loss: ExampleLoss, rows: npt.NDArray[Any], side: str
) -> tuple[AnsweredExample, ...]:
    names = [_name(sides, int(sides.places[side][row])) for row in rows]
    if sides.task == "reconstruction":
        return _describe_reconstructions(sides, scored, rows, names)
    if sides.task == "regression":
        preparation = sides.preparation
        assert isinstance(preparation, TablePreparation)
        truth, said = (preparation.in_units(part.reshape(-1).numpy()) for part in (scored.targets, scored.scores))
        return tuple(
            AnsweredExample(
                name, f"{truth[row]:,.6g}", f"{said[row]:,.6g}", None, bool(abs(truth[row] - said[row]) < 1e-9)
            )
            for name, row in zip(names, rows, strict=True)
        )
    likely = scored.scores.argmax(1).tolist()
    chances = class_probabilities(scored.scores, loss) if loss.probabilities else None
    return tuple(
        AnsweredExample(
            what=name,
            truth=sides.classes[int(scored.targets[row])],
            answer=sides.classes[likely[row]],
            probability=float(chances[row, likely[row]]) if chances is not None else None,
            is_right=likely[row] == int(scored.targets[row]),
            pixels=gray(sides.preparation, scored.examples.numbers[row]),
        )
        for name, row in zip(names, rows.tolist(), strict=True)
    )


def _describe_reconstructions(
    sides: ExampleSides, scored: Scored, rows: npt.NDArray[Any], names: Sequence[str]
) -> tuple[AnsweredExample, ...]:
    errors = (scored.scores - scored.targets).square().mean(1).tolist()
    shape = scored.examples.numbers.shape[1:]
    found = []
    for name, row in zip(names, rows.tolist(), strict=True):
        label = sides.classes[int(scored.examples.targets[row])] if sides.classes else ""
        numbers = scored.examples.numbers[row]
        back = scored.scores[row].numpy().reshape(shape) if len(shape) == 3 else numbers[:0]
        before, after = gray(sides.preparation, numbers), gray(sides.preparation, back)
        found.append(AnsweredExample(name, label, f"error {errors[row]:.3f}", None, False, before, after))
    return tuple(found)


def _name(sides: ExampleSides, place: int) -> str:
    return f"{'image' if isinstance(sides.preparation, ImagePreparation) else 'row'} {place + 1:,}"


def gray(preparation: object, numbers: Floats) -> tuple[tuple[int, ...], ...]:
    """A standardised image as gray pixels, 0 to 255; nothing where it is none, or too large to be shown."""
    if not isinstance(preparation, ImagePreparation) or numbers.ndim != 3 or numbers[0].size > MOST_PIXELS:
        return ()
    mean, deviation = (np.array(part).reshape(-1, 1, 1) for part in (preparation.mean, preparation.deviation))
    levels = np.clip(np.rint(numbers * deviation + mean), 0, 255).mean(0)  # of the channels: (height, width)
    return tuple(tuple(int(level) for level in row) for row in levels)


def latent_points(sides: ExampleSides, scored: Scored) -> tuple[LatentPoint, ...]:
    """Where examples went in the narrow place: its first two principal axes, or itself where it has but two."""
    points = scored.latent[:MOST_POINTS].double()
    if not len(points) or not points.shape[1]:
        return ()
    middle = points - points.mean(0)
    if points.shape[1] > 2:
        _, _, axes = torch.linalg.svd(middle, full_matrices=False)
        # The sign of an axis is left to chance by the algorithm: the largest part of each is made positive.
        axes = axes[:2] * axes[:2].gather(1, axes[:2].abs().argmax(1, keepdim=True)).sign()
        flat = middle @ axes.T
    else:
        flat = torch.nn.functional.pad(points, (0, 2 - points.shape[1]))
    targets = scored.examples.targets[:MOST_POINTS]
    labels = [sides.classes[int(target)] if sides.classes else "" for target in targets]
    return tuple(LatentPoint(x, y, label) for (x, y), label in zip(flat.tolist(), labels, strict=True))
