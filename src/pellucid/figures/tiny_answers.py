"""Runs of images, rows, pairs and an autoencoder, small enough to check by hand: metrics are those of the answers."""

import math
from dataclasses import replace

from pellucid.figures.tiny_run import TINY_RUN
from pellucid.records import (
    Answered,
    Answers,
    Calibration,
    ConfidenceBin,
    Confusion,
    Evaluation,
    InitialLoss,
    Ladder,
    LatentPoint,
    Measure,
    NetworkFacts,
    Rung,
    SampledAt,
    Step,
    TrainingReport,
)

INK = {" ": 0, ".": 90, "o": 180, "#": 255}
ONE = ("        ", "   #    ", "  ##    ", "   #    ", "   #    ", "   #    ", "  ###   ", "        ")
TWO = ("        ", "  ###   ", " #   #  ", "    #   ", "   #    ", "  #     ", " #####  ", "        ")
SEVEN = ("        ", " #####  ", "     #  ", "    #   ", "   #    ", "   #    ", "   #    ", "        ")
SEVEN_LIKE_ONE = ("        ", "  o##   ", "    #   ", "    #   ", "   o.   ", "   #    ", "   #    ", "        ")
BLURRED_TWO = ("   .    ", "  ###.  ", " o. .o  ", "   .#.  ", "  .#.   ", "  #.    ", " ####o. ", "   ..   ")

Pixels = tuple[tuple[int, ...], ...]


def _pixels(rows: tuple[str, ...]) -> Pixels:
    return tuple([tuple([INK[letter] for letter in row]) for row in rows])


def _learning(first: float, last: float) -> dict[str, object]:
    """Four steps that fall from one loss to another."""
    losses = [first + (last - first) * part for part in (0.0, 0.55, 0.85, 1.0)]
    return {
        "steps": tuple([Step(i, loss, 2, 0.01, 1.5 / i) for i, loss in enumerate(losses, start=1)]),
        "evaluations": (
            Evaluation(0, first, first),
            Evaluation(2, losses[1], losses[1] + 0.03),
            Evaluation(4, losses[3], last),
        ),
    }


def _run(name: str, **parts: object) -> TrainingReport:
    return replace(TINY_RUN, name=name, folder=f"runs/{name}", samples=(), **parts)  # type: ignore[arg-type]


TINY_IMAGES = _run(
    "tiny-images",
    data=TINY_RUN.data._replace(
        source="digits",
        said="digits: 40 images of 3 classes",
        kind="images",
        tokens="",
        vocab_size=3,
        symbols=("1", "2", "7"),
        items={"train": 22, "dev": 10, "test": 8},
        n_tokens={"train": 22, "dev": 10, "test": 8},
        first=(),
        task="classification",
        target="digit",
        about=("gray images of 8 × 8 pixels, standardised by train",),
    ),
    network=NetworkFacts(
        "cnn",
        "Two convolutions with pooling, and one linear layer.",
        {"numbers": (1, 8, 8), "categories": (), "outputs": 3, "channels": (8, 16)},
        1450,
        (("first.weight", (8, 1, 5, 5)), ("head.weight", (3, 16))),
    ),
    plan=TINY_RUN.plan._replace(context=0, shift=1),
    start=InitialLoss(1.12, math.log(3), 1.09, True, "1.1200 nats, near ln 3 = 1.0986, as it should be."),
    sampled=(SampledAt(2, ("1 → 7 (0.41)", "2 → 2 (0.55)")), SampledAt(4, ("1 → 1 (0.82)", "2 → 2 (0.91)"))),
    ladder=Ladder(
        "digits",
        (
            Rung("cnn", False, 1450, 0.42, 0.48, 0.50, math.nan, 0.1, 900.0, metric=0.8, test_metric=0.875),
            Rung("nearest centroid", True, 192, math.nan, math.nan, math.nan, math.nan, 0.0, None, 0.7, 0.625),
            Rung("majority class", True, 3, 1.08, 1.09, 1.10, math.nan, 0.0, None, metric=0.4, test_metric=0.375),
        ),
        measure=Measure("nats an image", "accuracy", "simple models", "image"),
    ),
    sentence="The cnn earns 10.00 points of accuracy over simple models.",
    command=("pellucid", "train", "digits", "--model", "cnn", "--steps", "4", "--seed", "0"),
    answers=Answers(
        n=10,
        metrics={"accuracy": 0.8, "log loss": 0.48},
        test_metrics={"accuracy": 0.875, "log loss": 0.5},
        confusion=Confusion(("1", "2", "7"), ((3, 0, 1), (0, 3, 0), (1, 0, 2))),
        calibration=Calibration(
            (
                ConfidenceBin(0.0, 0.25, 0, math.nan, math.nan),
                ConfidenceBin(0.25, 0.5, 0, math.nan, math.nan),
                ConfidenceBin(0.5, 0.75, 4, 0.65, 0.5),
                ConfidenceBin(0.75, 1.0, 6, 0.9, 1.0),
            ),
            0.12,
        ),
        examples=(
            Answered("image 17", "7", "1", 0.71, False, _pixels(SEVEN_LIKE_ONE)),
            Answered("image 4", "1", "7", 0.55, False, _pixels(ONE)),
            Answered("image 21", "2", "2", 0.97, True, _pixels(TWO)),
            Answered("image 30", "7", "7", 0.88, True, _pixels(SEVEN)),
        ),
    ),
    **_learning(1.12, 0.48),
)

TINY_ROWS = _run(
    "tiny-rows",
    data=TINY_RUN.data._replace(
        source="penguins",
        said="penguins: a table of 20 rows and 4 columns",
        kind="table",
        tokens="",
        vocab_size=0,
        symbols=(),
        items={"train": 12, "dev": 4, "test": 4},
        n_tokens={"train": 12, "dev": 4, "test": 4},
        first=(),
        task="regression",
        target="body_mass",
        about=("2 numbers, standardised by train", "1 category (species)"),
    ),
    network=NetworkFacts(
        "mlp", "Hidden layers of one width.", {"numbers": (2,), "width": 8}, 45, TINY_RUN.network.layers
    ),
    plan=TINY_RUN.plan._replace(context=0, loss="squared error", penalty="l2", strength=0.001),
    start=InitialLoss(1.03, 1.0, 1.0, True, "1.0300, near the 1 of always saying the mean, as it should be."),
    sampled=(SampledAt(4, ("3,500 → 3,600", "4,000 → 3,900")),),
    ladder=Ladder(
        "penguins",
        (
            Rung("mlp", False, 45, 0.01, 0.012, 0.3, math.nan, 0.1, 400.0, metric=0.988, test_metric=0.7),
            Rung("linear regression", True, 4, 0.09, 0.1, 0.35, math.nan, 0.0, None, metric=0.9, test_metric=0.65),
            Rung("mean", True, 1, 1.0, 1.02, 1.05, math.nan, 0.0, None, metric=-0.02, test_metric=-0.05),
        ),
        measure=Measure("squared error", "R²", "simple models", "row"),
    ),
    sentence="The mlp earns 0.0880 of R² over simple models.",
    command=("pellucid", "train", "penguins", "--target", "body_mass", "--model", "mlp", "--steps", "4", "--seed", "0"),
    answers=Answers(
        n=4,
        metrics={"R²": 0.988, "MAE": 75.0},
        test_metrics={"R²": 0.7, "MAE": 210.0},
        examples=(
            Answered("row 3", "3,500", "3,600", None, False),
            Answered("row 9", "4,000", "3,900", None, False),
            Answered("row 14", "5,000", "5,100", None, False),
            Answered("row 17", "5,500", "5,500", None, True),
        ),
        points=((3500.0, 3600.0), (4000.0, 3900.0), (5000.0, 5100.0), (5500.0, 5500.0)),
        n_unknown=1,
    ),
    **_learning(1.03, 0.012),
)

TINY_PAIRS = _run(
    "tiny-pairs",
    data=TINY_RUN.data._replace(
        source="dedupe-sort",
        said="dedupe-sort: 40 pairs",
        kind="pairs",
        vocab_size=4,
        symbols=("·", "a", "b", "c"),
        items={"train": 30, "dev": 4, "test": 6},
        n_tokens={"train": 110, "dev": 14, "test": 21},
        first=("cab → abc", "bb → b"),
        about=("sources of up to 4 tokens, targets of up to 3",),
    ),
    network=NetworkFacts("encoder-decoder", "Reads the source, writes the target.", {"width": 8}, 3200, ()),
    plan=TINY_RUN.plan._replace(context=4),
    start=InitialLoss(1.41, math.log(4), 1.3, True, "1.4100 nats, near ln 4 = 1.3863, as it should be."),
    sampled=(SampledAt(2, ("cab → aab", "bb → b")), SampledAt(4, ("cab → abc", "bb → b"))),
    ladder=Ladder(
        "dedupe-sort",
        (
            Rung("encoder-decoder", False, 3200, 0.1, 0.14, 0.15, math.nan, 0.1, 600.0, metric=0.75, test_metric=5 / 6),
            Rung("copying", True, 0, math.nan, math.nan, math.nan, math.nan, 0.0, None, metric=0.25, test_metric=1 / 6),
        ),
        measure=Measure("nats a token", "exact match", "simple models", "token"),
    ),
    sentence="The encoder-decoder earns 50.00 points of exact match over simple models.",
    command=("pellucid", "train", "dedupe-sort", "--steps", "4", "--seed", "0"),
    answers=Answers(
        n=4,
        metrics={"exact match": 0.75, "tokens right": 13 / 14},
        test_metrics={"exact match": 5 / 6, "tokens right": 20 / 21},
        examples=(
            Answered("ccab", "abc", "abb", 0.48, False),
            Answered("bba", "ab", "ab", 0.93, True),
            Answered("cacb", "abc", "abc", 0.95, True),
            Answered("ab", "ab", "ab", 0.99, True),
        ),
    ),
    **_learning(1.41, 0.14),
)

TINY_RECONSTRUCTION = _run(
    "tiny-reconstruction",
    data=TINY_IMAGES.data._replace(task="reconstruction", target=""),
    network=NetworkFacts(
        "autoencoder",
        "Down to a few numbers and back.",
        {"numbers": (1, 8, 8), "latent": 2},
        900,
        TINY_RUN.network.layers,
    ),
    plan=TINY_RUN.plan._replace(context=0, loss="squared error"),
    start=InitialLoss(1.01, 1.0, 1.0, True, "1.0100, near the 1 of always saying the mean, as it should be."),
    sampled=(),
    ladder=Ladder(
        "digits",
        (
            Rung("autoencoder", False, 900, 0.3, 0.36, 0.4, math.nan, 0.1, 700.0, metric=0.64, test_metric=0.6),
            Rung("2 principal axes", True, 192, 0.45, 0.5, 0.52, math.nan, 0.0, None, metric=0.5, test_metric=0.48),
            Rung("mean", True, 64, 1.0, 1.0, 1.02, math.nan, 0.0, None, metric=0.0, test_metric=-0.02),
        ),
        measure=Measure("squared error", "R²", "simple models", "image"),
    ),
    sentence="The autoencoder earns 0.1400 of R² over simple models.",
    command=("pellucid", "train", "digits", "--model", "autoencoder", "--steps", "4", "--seed", "0"),
    answers=Answers(
        n=10,
        metrics={"R²": 0.64},
        test_metrics={"R²": 0.6},
        examples=(
            Answered("image 21", "2", "", None, True, _pixels(TWO), _pixels(BLURRED_TWO)),
            Answered("image 17", "7", "", None, True, _pixels(SEVEN_LIKE_ONE), _pixels(SEVEN)),
        ),
        latent=(
            LatentPoint(-1.2, 0.3, "1"),
            LatentPoint(-1.0, 0.1, "1"),
            LatentPoint(-0.9, 0.4, "1"),
            LatentPoint(1.1, 0.9, "2"),
            LatentPoint(1.4, 1.1, "2"),
            LatentPoint(0.2, -1.0, "7"),
            LatentPoint(-0.3, -0.8, "7"),
        ),
    ),
    **_learning(1.01, 0.36),
)

ANSWERING = (TINY_IMAGES, TINY_ROWS, TINY_PAIRS, TINY_RECONSTRUCTION)
