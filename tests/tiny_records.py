"""Records small enough to check by hand: one for each figure, and runs of every task with their answers."""

import math
from dataclasses import replace

from tests.tiny_lessons import TINY_LESSONS

from pellucid.records import (
    AnsweredExample,
    Answers,
    Attended,
    AttentionGraph,
    AttentionMaps,
    BigramCount,
    BigramCounts,
    Calibration,
    ColumnHistogram,
    ConfidenceBin,
    Confusion,
    DataFacts,
    Ending,
    Evaluation,
    Finding,
    HeadEffect,
    HeadStudy,
    Health,
    Histogram,
    HistogramBar,
    Importance,
    InitialLoss,
    Ladder,
    LatentPoint,
    LayerStats,
    LearningRateSearch,
    LearningRateTrial,
    Measure,
    NetworkFacts,
    PatchAttention,
    PatchPositions,
    Plan,
    Rung,
    Sample,
    SampledAt,
    SizeLadder,
    SizeRung,
    Statement,
    Step,
    Survival,
    SweepReport,
    SweepRound,
    SweepTrial,
    Tail,
    Timing,
    TokenAccuracy,
    TrainingReport,
    UnitMap,
    Verdict,
    WeightStats,
)


def _look(step: int, deviation: float) -> Health:
    values, gradients = Histogram(-1.0, 1.0, (1, 2, 3, 2, 1)), Histogram(-0.02, 0.02, (1, 4, 9, 4, 1))
    layer = LayerStats("layers.0.act", "Tanh", 4, 2, 0.01, deviation, 0.25, 1, 0.0, 0.004, values, gradients)
    weights = (
        WeightStats("table.weight", (3, 2), 1.0, 0.3, 0.0 if not step else 2e-3),
        WeightStats("layers.0.weight", (4, 6), 0.4, 0.2, 0.0 if not step else 8e-4),
        WeightStats("layers.0.bias", (4,), 0.1, 0.05, 0.0 if not step else 5e-3),
    )
    return Health(step, (layer,), weights, (UnitMap("layers.0.act", "Tanh", ("0900", "0909"), ("5078", "1094")),))


TINY_RUN = TrainingReport(
    name="tiny",
    folder="runs/tiny",
    seed=0,
    threads=1,
    versions={"pellucid": "0", "python": "3"},
    data=DataFacts(
        source="words.txt",
        description="words.txt: a list of 4 items",
        kind="list",
        tokens="characters",
        fingerprint="c0ffee",
        vocab_size=3,
        symbols=("·", "a", "b"),
        items={"train": 2, "dev": 1, "test": 1},
        n_tokens={"train": 5, "dev": 3, "test": 2},
        first=("ab", "ba"),
    ),
    network=NetworkFacts(
        name="mlp",
        summary="An embedding, one hidden layer and a softmax.",
        config={"vocab_size": 3, "context": 3},
        parameters=45,
        layers=(("table.weight", (3, 2)), ("layers.0.weight", (4, 6)), ("layers.0.bias", (4,))),
    ),
    plan=Plan(
        4,
        2,
        3,
        "adamw",
        0.01,
        0.0,
        0.0,
        0.1,
        1.0,
        1,
        "linear",
        2,
        2,
        2,
        4,
        1,
        0,
        0.1,
        (Statement("dropout", {"dropout": 0.1, "epochs": 6.0}),),
    ),
    start=InitialLoss(1.11, math.log(3), 1.05, True, "unsure", 3),
    steps=tuple(Step(i, 1.1 - 0.1 * i, 5, 0.01, 1.5 / i) for i in range(1, 5)),
    evaluations=(Evaluation(0, 1.11, 1.11), Evaluation(2, 0.9, 0.95), Evaluation(4, 0.7, 0.92)),
    health=(_look(0, 0.6), _look(4, 0.7)),
    findings=(Finding("note", "layers.0.act", "1 of 4 units", "it learns nothing", "a smaller rate", 4),),
    timings=(Timing(4, 0.1, 200.0),),
    sampled=(SampledAt(2, ("aab", "b")), SampledAt(4, ("ab", "ba"))),
    samples=(Sample("ab", 1.9, 3, "train", "ab", 0, "ab"), Sample("bab", 2.9, 4, "new", "ba", 1, "ba")),
    ladder=Ladder(
        "words.txt",
        (
            Rung(
                *("mlp", False, 45, 0.7, 0.92, 0.95, 1.33, 0.1, 200.0),
                accuracies=(TokenAccuracy("dev", 0.625, 40, "item", 12, 1), TokenAccuracy("test", 0.6, 20)),
            ),
            Rung(
                *("bigram", True, 9, 0.8, 0.99, 1.01, 1.43, 0.001, None),
                accuracies=(TokenAccuracy("dev", 0.575, 40, "item", 12, 0),),
            ),
            Rung("uniform", True, 0, math.log(3), math.log(3), math.log(3), 1.58, 0.0, None),
        ),
    ),
    ending=Ending("budget", 4, 4),
    verdict=Verdict("good fit", "at rest"),
    command=("pellucid", "train", "words.txt", "--model", "mlp", "--steps", "4", "--seed", "0"),
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
        description="digits: 40 images of 3 classes",
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
    start=InitialLoss(1.12, math.log(3), 1.09, True, "unsure", 3),
    sampled=(SampledAt(2, ("1 → 7 (0.41)", "2 → 2 (0.55)")), SampledAt(4, ("1 → 1 (0.82)", "2 → 2 (0.91)"))),
    ladder=Ladder(
        "digits",
        (
            Rung("cnn", False, 1450, 0.42, 0.48, 0.50, math.nan, 0.1, 900.0, metric=0.8, test_metric=0.875),
            Rung("nearest centroid", True, 192, math.nan, math.nan, math.nan, math.nan, 0.0, None, 0.7, 0.625),
            Rung("majority class", True, 3, 1.08, 1.09, 1.10, math.nan, 0.0, None, metric=0.4, test_metric=0.375),
        ),
        measure=Measure("nats", "accuracy", "simple models", "image"),
    ),
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
            AnsweredExample("image 17", "7", "1", 0.71, False, _pixels(SEVEN_LIKE_ONE)),
            AnsweredExample("image 4", "1", "7", 0.55, False, _pixels(ONE)),
            AnsweredExample("image 21", "2", "2", 0.97, True, _pixels(TWO)),
            AnsweredExample("image 30", "7", "7", 0.88, True, _pixels(SEVEN)),
        ),
    ),
    **_learning(1.12, 0.48),
)

TINY_ROWS = _run(
    "tiny-rows",
    data=TINY_RUN.data._replace(
        source="penguins",
        description="penguins: a table of 20 rows and 4 columns",
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
    start=InitialLoss(1.03, 1.0, 1.0, True, "unsure"),
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
    command=("pellucid", "train", "penguins", "--target", "body_mass", "--model", "mlp", "--steps", "4", "--seed", "0"),
    answers=Answers(
        n=4,
        metrics={"R²": 0.988, "MAE": 75.0},
        test_metrics={"R²": 0.7, "MAE": 210.0},
        examples=(
            AnsweredExample("row 3", "3,500", "3,600", None, False),
            AnsweredExample("row 9", "4,000", "3,900", None, False),
            AnsweredExample("row 14", "5,000", "5,100", None, False),
            AnsweredExample("row 17", "5,500", "5,500", None, True),
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
        description="dedupe-sort: 40 pairs",
        kind="pairs",
        vocab_size=4,
        symbols=("·", "a", "b", "c"),
        items={"train": 30, "dev": 4, "test": 6},
        n_tokens={"train": 110, "dev": 14, "test": 21},
        first_pairs=(("cab", "abc"), ("bb", "b")),
        about=("sources of up to 4 tokens, targets of up to 3",),
    ),
    network=NetworkFacts("encoder-decoder", "Reads the source, writes the target.", {"width": 8}, 3200, ()),
    plan=TINY_RUN.plan._replace(context=4),
    start=InitialLoss(1.41, math.log(4), 1.3, True, "unsure", 4),
    sampled=(SampledAt(2, ("cab → aab", "bb → b")), SampledAt(4, ("cab → abc", "bb → b"))),
    ladder=Ladder(
        "dedupe-sort",
        (
            Rung("encoder-decoder", False, 3200, 0.1, 0.14, 0.15, math.nan, 0.1, 600.0, metric=0.75, test_metric=5 / 6),
            Rung("copying", True, 0, math.nan, math.nan, math.nan, math.nan, 0.0, None, metric=0.25, test_metric=1 / 6),
        ),
        measure=Measure("nats", "exact match", "simple models", "token"),
    ),
    command=("pellucid", "train", "dedupe-sort", "--steps", "4", "--seed", "0"),
    answers=Answers(
        n=4,
        metrics={"exact match": 0.75, "tokens right": 13 / 14},
        test_metrics={"exact match": 5 / 6, "tokens right": 20 / 21},
        examples=(
            AnsweredExample("ccab", "abc", "abb", 0.48, False),
            AnsweredExample("bba", "ab", "ab", 0.93, True),
            AnsweredExample("cacb", "abc", "abc", 0.95, True),
            AnsweredExample("ab", "ab", "ab", 0.99, True),
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
    start=InitialLoss(1.01, 1.0, 1.0, True, "unsure"),
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
    command=("pellucid", "train", "digits", "--model", "autoencoder", "--steps", "4", "--seed", "0"),
    answers=Answers(
        n=10,
        metrics={"R²": 0.64},
        test_metrics={"R²": 0.6},
        examples=(
            AnsweredExample("image 21", "2", "", None, True, _pixels(TWO), _pixels(BLURRED_TWO)),
            AnsweredExample("image 17", "7", "", None, True, _pixels(SEVEN_LIKE_ONE), _pixels(SEVEN)),
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


def _tiny_learning_rate() -> LearningRateSearch:
    rates = [10.0 ** (i / 3 - 4) for i in range(13)]
    losses = [3.3, 3.3, 3.29, 3.26, 3.2, 3.05, 2.8, 2.5, 2.4, 2.45, 2.9, 9.0, math.inf]
    slopes = [0.0, -0.01, -0.05, -0.1, -0.3, -0.6, -0.8, -0.6, -0.1, 0.75, 9.0, math.nan, math.nan]
    sweep = tuple(
        LearningRateTrial(rate, loss, loss, slope) for rate, loss, slope in zip(rates, losses, slopes, strict=True)
    )
    rules = (0.01, None), (0.02, 0.03), (0.015, 0.025)
    return LearningRateSearch("names", "mlp", (sweep, sweep), (1, 2), *rules, (None, None), 0.02, 1.5, (0.03, None))


# For each figure by its name.
TINY: dict[str, object] = {
    "accuracy-by-size": SizeLadder(
        "digits",
        "accuracy",
        (100, 400),
        (
            SizeRung("cnn", 100, 0.90, 0.89, 3.0, 3700, False),
            SizeRung("cnn", 100, 0.92, 0.90, 3.0, 3700, False),
            SizeRung("cnn", 400, 0.96, 0.95, 6.0, 3700, False),
            SizeRung("cnn", 400, 0.97, 0.95, 6.0, 3700, False),
            SizeRung("vit", 100, 0.80, 0.79, 4.0, 26_000, False),
            SizeRung("vit", 400, 0.95, 0.94, 8.0, 26_000, False),
            SizeRung("nearest centroid", 100, 0.86, 0.85, 0.0, 640, True),
            SizeRung("nearest centroid", 400, 0.89, 0.88, 0.0, 640, True),
        ),
    ),
    "attention-graph": AttentionGraph(
        AttentionMaps(
            "a transformer reads ·a",
            (Attended("self-attention", ("·", "a"), ("·", "a"), ((((1.0, 0.0), (0.9, 0.1)),),)),),
        ),
        layers=(0,),
        heads=(0,),
        least=0.1,
    ),
    "attention-maps": AttentionMaps(
        source="a transformer of two heads reads ·ab",
        parts=(
            Attended(
                "self-attention",
                ("·", "a", "b"),
                ("·", "a", "b"),
                (
                    (
                        ((1.0, 0.0, 0.0), (0.9, 0.1, 0.0), (0.05, 0.85, 0.1)),
                        ((1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.3, 0.3, 0.4)),
                    ),
                ),
            ),
        ),
    ),
    "bigram-graph": BigramCounts("emma", ("·", "a"), True, (BigramCount(0, 1, 1), BigramCount(1, 0, 1)), (0, 1, 0)),
    "bigram-matrix": BigramCounts("emma", ("·", "a"), True, (BigramCount(0, 1, 1), BigramCount(1, 0, 1))),
    "calibration": TINY_IMAGES,
    "confusion": TINY_IMAGES,
    "gradient-norms": TINY_RUN,
    "histogram": ColumnHistogram(
        source="sales.csv",
        column="amount",
        n=4,
        n_missing=1,
        smallest=1.0,
        deviation=2.5,
        skewness=2.1,
        below_mean=0.75,
        top_sum=0.6,
        n_not_positive=0,
        tails=(Tail("amount", "all", 2.75, 1.5, 7.0, 7.0, 7.0, 7.0, 0.0, 1.2, 2),),
        bars=(HistogramBar(0.5, 4.5, 3), HistogramBar(4.5, 8.5, 1)),
        bars_by_powers=(HistogramBar(0.5, 1.5, 2), HistogramBar(1.5, 3.5, 1), HistogramBar(3.5, 7.5, 1)),
        survivals=(Survival("all", (1.0, 2.0, 7.0), (1.0, 0.5, 0.25)),),
    ),
    "ladder": Ladder(
        "three names",
        (
            Rung("transformer", False, 200_000, 1.85, 1.90, None, 2.74, 60.0, 90_000.0),
            Rung("kneser-ney 5", True, 90_000, 1.60, 1.98, None, 2.85, 0.4, None),
            Rung("uniform", True, 0, 3.2958, 3.2958, None, 4.75, 0.0, None),
        ),
    ),
    "heads": HeadStudy(
        "a run of two heads",
        loss=2.0,
        n_tokens=100,
        n_units=20,
        unit="item",
        even_entropy=1.5,
        heads=(HeadEffect(0, 0, 2.1, 0.1, 0.05, 0.15, 0.5), HeadEffect(0, 1, 2.01, 0.01, -0.02, 0.04, 1.4)),
        distances=((0.0, 0.25), (0.25, 0.0)),
    ),
    "latent": TINY_RECONSTRUCTION,
    "layer-histograms": TINY_RUN,
    "learning-rate": _tiny_learning_rate(),
    "loss-curves": TINY_RUN,
    "mistakes": TINY_IMAGES,
    "patch-attention": PatchAttention(
        source="a tiny vit reads an image",
        answer="3",
        probability=0.8,
        truth="",
        pixels=(("#000000", "#ffffff"), ("#ffffff", "#000000")),
        grid=(1, 2),
        layers=(((0.2, 0.5, 0.3), (0.1, 0.1, 0.8)),),
        rollout=(0.575, 0.15, 0.275),
    ),
    "importances": replace(
        TINY_ROWS,
        answers=TINY_ROWS.answers._replace(
            importances=(Importance("flipper", 0.5, 0.2, 0.8, 4), Importance("species", 0.1, -0.1, 0.3, 4)),
            importances_on="dev",
        ),
    ),
    "reconstructions": TINY_RECONSTRUCTION,
    "regression": TINY_ROWS,
    "sweep": SweepReport(
        "a tiny list",
        "mlp",
        {"learning_rate": (0.01, 0.1)},
        2,
        (10, 20),
        (
            SweepTrial(2, {"learning_rate": 0.1}, 300, (SweepRound(10, 2.5, 0.1), SweepRound(20, 2.2, 0.2))),
            SweepTrial(1, {"learning_rate": 0.01}, 300, (SweepRound(10, 2.9, 0.1),)),
        ),
        "nats",
        0.4,
    ),
    "unit-maps": TINY_RUN,
    "update-ratios": TINY_RUN,
    "vit-positions": PatchPositions(
        "a tiny vit",
        (1, 3),
        ((1.0, 0.5, -0.2), (0.5, 1.0, 0.4), (-0.2, 0.4, 1.0)),
        neighbours=0.45,
        others=-0.2,
    ),
}


def tiny_record(name: str) -> object:
    """The record of a figure or of a lesson."""
    return TINY[name] if name in TINY else TINY_LESSONS[name]
