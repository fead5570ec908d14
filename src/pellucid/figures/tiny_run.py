"""A run of four steps, small enough to read, on which every picture and page of a run is tried."""

import math

from pellucid.records import (
    DataFacts,
    Ending,
    Evaluation,
    Finding,
    Health,
    Histogram,
    InitialLoss,
    Ladder,
    LayerStats,
    NetworkFacts,
    Plan,
    Rung,
    Sample,
    SampledAt,
    Step,
    Timing,
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
        said="words.txt: a list of 4 items",
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
        says="An embedding, one hidden layer and a softmax.",
        config={"vocab_size": 3, "context": 3},
        parameters=45,
        layers=(("table.weight", (3, 2)), ("layers.0.weight", (4, 6)), ("layers.0.bias", (4,))),
    ),
    plan=Plan(
        4, 2, 3, "adamw", 0.01, 0.0, 0.0, 0.1, 1.0, 1, "linear", 2, 2, 2, 4, 1, 0, 0.1, ("--steps asked for 4.",)
    ),
    start=InitialLoss(1.11, math.log(3), 1.05, True, "1.1100 nats, near ln 3 = 1.0986, as it should be."),
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
            Rung("mlp", False, 45, 0.7, 0.92, 0.95, 1.33, 0.1, 200.0),
            Rung("bigram", True, 9, 0.8, 0.99, 1.01, 1.43, 0.001, None),
            Rung("uniform", True, 0, math.log(3), math.log(3), math.log(3), 1.58, 0.0, None),
        ),
    ),
    ending=Ending("budget", 4, 4, "All 4 steps of the plan are done."),
    verdict=Verdict("good fit", "train and dev fell together", "More steps may help"),
    sentence="mlp earns 0.07 nats over counting.",
    command=("pellucid", "train", "words.txt", "--model", "mlp", "--steps", "4", "--seed", "0"),
)
