"""What a network answered about rows and images, as records: how often it is right, what it confuses, its mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.data.prepare import Examples, ExampleSides, ImagePreparation, TablePreparation
from pellucid.layers.losses import ExampleLoss
from pellucid.records import AnsweredExample, Answers, Cutoff, LatentPoint, MetricInterval
from pellucid.training.tasks import metrics

MOST_SHOWN = 24  # examples in a report
MOST_POINTS = 1_000  # of a regression or of a latent picture
MOST_PIXELS = 64 * 64  # of an image in a report
UNEVEN = 0.75  # of train in one class: from there on accuracy says little, and more is told
Floats = npt.NDArray[Any]


class Scored(NamedTuple):
    """Examples with what was said and what should have been; of a reconstructor, what was left in between."""

    examples: Examples
    scores: Tensor  # (examples, outputs)
    targets: Tensor  # (examples,), or (examples, features)
    latent: Tensor  # (examples, latent); no columns where there is no narrow place


def preview_texts(sides: ExampleSides, side: str, scored: Scored, loss: ExampleLoss) -> tuple[str, ...]:
    """Each example of a side as truth → answer, with the answer's probability where there is one."""
    if sides.task == "reconstruction":
        errors = (scored.scores - scored.targets).square().mean(1)
        return tuple(f"error {error:.3f}" for error in errors.tolist())
    return tuple(
        f"{one.truth} → {one.answer}" + (f" ({one.probability:.2f})" if one.probability is not None else "")
        for one in _describe_answers(sides, scored, loss, np.arange(len(scored.examples)), side)
    )


def answers_of(sides: ExampleSides, side: str, dev: Scored, test: Scored, loss: ExampleLoss) -> Answers:
    """Everything that is told of the answers on dev, and the numbers on test. side: what stands in the place of dev."""
    worst = loss.losses(dev.scores, dev.targets).argsort(descending=True, stable=True)[:MOST_SHOWN].numpy()
    tested = {"test": test} if len(test.examples) else {}
    held_out = {**({"dev": dev} if side == "dev" else {}), **tested}
    common: dict[str, Any] = {
        "n": len(dev.examples),
        "metrics": network_metrics(sides, dev, loss),
        "test_metrics": network_metrics(sides, test, loss) if tested else {},
        "examples": _describe_answers(sides, dev, loss, worst, side),
        "n_unknown": sides.n_unknown,
        "side": side,
    }
    if sides.task == "reconstruction":
        return Answers(**common, latent=latent_points(sides, dev))
    if sides.task == "regression":
        truth, said = (in_units(sides, part.numpy()) for part in (dev.targets, dev.scores))
        points = list(zip(truth.tolist(), said.tolist(), strict=True))[:MOST_POINTS]
        intervals = [
            one
            for of, part in held_out.items()
            for one in intervals_of(
                of, *(in_units(sides, each.double().numpy()) for each in (part.scores, part.targets))
            )
        ]
        return Answers(**common, points=tuple(points), intervals=tuple(intervals))
    classes, likely = dev.targets.numpy(), dev.scores.argmax(1).numpy()
    confusion, calibration = metrics.confusion(likely, classes, sides.classes), None
    if loss.probabilities and side == "dev":  # of what it was trained on, a network may be as sure as it likes
        calibration = metrics.calibration(class_probabilities(dev.scores, loss).max(1), likely == classes)
    if not is_uneven(sides):
        return Answers(**common, confusion=confusion, calibration=calibration)
    usual = np.eye(len(sides.classes))[[_majority(sides)]]  # (1, classes)
    over_majority = [
        metrics.paired_gain(
            of,
            metrics.class_units(part.scores.numpy(), part.targets.numpy()),
            metrics.class_units(usual.repeat(len(part.targets), axis=0), part.targets.numpy()),
        )
        for of, part in held_out.items()
    ]
    cutoff = _cutoff(sides, held_out, loss) if side == "dev" else None
    return Answers(
        **common, confusion=confusion, calibration=calibration, over_majority=tuple(over_majority), cutoff=cutoff
    )


def is_uneven(sides: ExampleSides) -> bool:
    """Whether one class has most of train, so that saying it always is right as often."""
    counts = np.bincount(sides.train.targets, minlength=len(sides.classes))
    return bool(counts.max() >= UNEVEN * counts.sum())


def _majority(sides: ExampleSides) -> int:
    return int(np.bincount(sides.train.targets, minlength=len(sides.classes)).argmax())


def _cutoff(sides: ExampleSides, scored: dict[str, Scored], loss: ExampleLoss) -> Cutoff | None:
    """Of two classes: from which probability on the rare one is best said, chosen on dev, and what that comes to."""
    if len(sides.classes) != 2 or not loss.probabilities:
        return None
    rare = 1 - _majority(sides)
    chances = {side: class_probabilities(part.scores, loss)[:, rare] for side, part in scored.items()}
    is_rare = {side: part.targets.numpy() == rare for side, part in scored.items()}
    if not 0 < is_rare["dev"].sum() < len(is_rare["dev"]):
        return None
    at = metrics.best_cutoff(chances["dev"], is_rare["dev"])
    names = (sides.classes[1 - rare], sides.classes[rare])
    found = {
        side: metrics.confusion((chances[side] >= at).astype(np.int64), is_rare[side].astype(np.int64), names)
        for side in scored
    }
    return Cutoff(sides.classes[rare], at, found["dev"], found.get("test"))


def intervals_of(side: str, said: Floats, truth: Floats) -> list[MetricInterval]:
    """Of numbers in the units of the target: (examples,)."""
    return [
        MetricInterval(side, name, *interval)
        for name, interval in (
            ("R²", metrics.r_squared_interval(said, truth)),
            ("MAE", metrics.mean_absolute_error_interval(said, truth)),
        )
    ]


def class_probabilities(scores: Tensor, loss: ExampleLoss) -> Floats:
    """(examples, classes), in double precision, so that small ones do not vanish."""
    assert loss.probabilities is not None, f"{loss.name} has no probabilities"
    found: Floats = loss.probabilities(scores.double()).numpy()
    return found


def network_metrics(sides: ExampleSides, scored: Scored, loss: ExampleLoss) -> dict[str, float]:
    """The numbers by which a network is judged on a side, by name."""
    truth, said = scored.targets.double().numpy(), scored.scores.double().numpy()
    if sides.task == "classification":
        probabilities = class_probabilities(scored.scores, loss) if loss.probabilities else None
        return class_metrics(sides, said, truth.astype(np.int64), probabilities)
    if sides.task == "reconstruction":
        return number_metrics(said, truth, None)
    assert isinstance(sides.preparation, TablePreparation)
    return number_metrics(said, truth, sides.preparation.deviation)


def class_metrics(
    sides: ExampleSides, scores: Floats, truth: metrics.Classes, probabilities: Floats | None
) -> dict[str, float]:
    """Of any model whose highest score, (examples, classes), is its answer; probabilities: where it has them."""
    found = {"accuracy": metrics.accuracy(scores, truth)}
    if is_uneven(sides):
        found["balanced accuracy"] = metrics.balanced_accuracy(scores.argmax(1), truth)
        if len(sides.classes) == 2:
            rare = 1 - _majority(sides)
            # Ranks are all that these two read, so any scores will do.
            ranked = scores[:, rare] - scores[:, 1 - rare]
            found["AUC"] = metrics.area_under_curve(ranked, truth == rare)
            found["average precision"] = metrics.average_precision(ranked, truth == rare)
    if probabilities is not None:
        found["log loss"] = metrics.log_loss(probabilities, truth)
    return found


def number_metrics(said: Floats, truth: Floats, unit: float | None) -> dict[str, float]:
    """Of any model that answers with numbers, of which one is so many units of the target; None: it has no unit."""
    said = said.reshape(truth.shape)
    found = {"R²": metrics.r_squared(said, truth)}
    if unit is not None:
        found["MAE"] = unit * metrics.mean_absolute_error(said, truth)
        found["RMSE"] = unit * metrics.root_mean_squared_error(said, truth)
    return found


def in_units(sides: ExampleSides, values: Floats) -> Floats:
    """Numbers of a regression as the table has them: (examples,)."""
    assert isinstance(sides.preparation, TablePreparation)
    found: Floats = sides.preparation.in_units(values.reshape(-1))
    return found


def _describe_answers(
    sides: ExampleSides, scored: Scored, loss: ExampleLoss, rows: npt.NDArray[Any], side: str
) -> tuple[AnsweredExample, ...]:
    names = [sides.name_of(int(sides.places[side][row])) for row in rows]
    if sides.task == "reconstruction":
        return _describe_reconstructions(sides, scored, rows, names)
    if sides.task == "regression":
        truth, said = (in_units(sides, part.numpy()) for part in (scored.targets, scored.scores))
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
