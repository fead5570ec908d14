"""Batch size: noise against every batch there is, memory against a count by hand, losses against a run of `train`."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional

import pellucid
from pellucid.errors import PellucidError
from pellucid.lessons import batch_size
from pellucid.lessons.batch_size import (
    BatchSizeKnobs,
    flat_gradient,
    gradient_noise,
    noise_exponent,
    noise_share,
    saved_for_backward,
    seed_mean,
)
from pellucid.training.tasks.batches import PairBatches

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {"source": "penguins", "target": "species", "batch_sizes": (4, 32), "examples": 64, "steps": 6, "seeds": 2}


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_noise_of_every_batch_there_is(size: int) -> None:
    """All batches of 6 examples: the variance of one example's gradient · (N − B) / (N − 1) / B, by NumPy."""
    torch.manual_seed(0)
    layer = nn.Linear(3, 2).double()
    x, y = torch.randn(6, 3, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)

    def gradient(rows: tuple[int, ...]) -> torch.Tensor:
        wrong = layer(x[list(rows)]) - y[list(rows)]
        return flat_gradient(wrong.square().sum(1).mean() / 2, list(layer.parameters()))

    batches = list(itertools.combinations(range(6), size))
    found = gradient_noise(torch.stack([gradient(rows) for rows in batches])) * (len(batches) - 1) / len(batches)
    # By hand: of one example, the slope by W is wrong · xᵀ and by the bias it is wrong itself.
    wrong = (x @ layer.weight.T + layer.bias - y).detach().numpy()
    alone = np.concatenate([(wrong[:, :, None] * x.numpy()[:, None]).reshape(6, -1), wrong], axis=1)
    variance = ((alone - alone.mean(0)) ** 2).sum(1).mean()
    assert found == pytest.approx(variance * noise_share(size, 6), rel=1e-12)


def test_the_exponent_is_minus_one_on_real_data() -> None:
    """48 draws for each size from 4 to 128 and one seed: the exponent is told to about ± 0.05, and held to ± 0.15."""
    for source, model in (("penguins", "mlp"), ("dedupe-sort:n=300", "encoder")):
        target = "species" if source == "penguins" else ""
        sizes = {"batch_sizes": (4, 16, 128), "examples": 4, "steps": 5, "seeds": 1, "seed": 3}
        knobs = BatchSizeKnobs(source=source, target=target, model=model, **sizes)
        study = batch_size.measure(knobs)
        assert study.exponent == pytest.approx(-1, abs=0.15)
        assert not study.rows_meet
        points = [(math.log(size.rows * 1.0), math.log(size.noises[0])) for size in study.sizes]
        plain = np.polyfit(*zip(*points, strict=True), 1)[0]
        corrected = [math.log(size.rows * noise_share(size.rows, study.n_rows)) for size in study.sizes]
        slope = np.polyfit([x for x, _ in points], [y - c for (_, y), c in zip(points, corrected, strict=True)], 1)[0]
        assert study.exponent == pytest.approx(slope, abs=1e-9)
        assert plain < study.exponent  # batches that are a good part of all leave less noise than 1/B
    assert math.isnan(noise_exponent([(6, 1.0), (6, 0.0)], 6))


def test_what_is_kept_for_the_way_back_is_counted_by_hand() -> None:
    """Inputs, what tanh gave (twice, in one memory), log-probabilities, targets, and the one number of their weight."""
    rows, inputs, hidden, classes = 7, 5, 3, 4
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, classes))
    x, targets = torch.randn(rows, inputs), torch.randint(0, classes, (rows,))
    found = saved_for_backward(lambda: functional.cross_entropy(model(x), targets), model.parameters())
    assert found == 4 * rows * (inputs + hidden + classes) + 8 * rows + 4


def test_the_losses_are_those_of_a_run(tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = batch_size.measure(BatchSizeKnobs(**SMALL))
    assert [size.n_steps for size in study.sizes] == [16, 2]
    asked = {"model": "mlp", "size": "tiny", "optimizer": "adamw", "threads": 1, "folds": 0, "target": "species"}
    small, large = study.sizes
    for size, n_steps, seed, loss in (
        (4, 16, 1, small.losses_by_epochs[0]),
        (32, 6, 2, large.losses_by_steps[1]),
    ):
        run = pellucid.train("penguins", batch_size=size, steps=n_steps, seed=seed, name=f"of-{size}", **asked)
        assert run.report.evaluations[-1].dev == loss
    assert study.epochs == pytest.approx(64 / study.n_rows)


def test_intervals_are_students() -> None:
    values = [0.3, 0.5, 0.45, 0.7]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    found = seed_mean(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert (found.low, found.high) == pytest.approx((low, high), rel=5e-3)
    assert seed_mean([2.0]) == (2.0, 2.0, 2.0)


def test_a_training_that_comes_to_an_infinity_is_told() -> None:
    fast = {"optimizer": "sgd", "learning_rate": 1e3, "seeds": 1, "steps": 60}
    study = batch_size.measure(BatchSizeKnobs(**{**SMALL, **fast}))
    losses = {size.batch_size: size.losses_by_steps[0] for size in study.sizes}
    assert any(map(math.isnan, losses.values()))
    drawn = batch_size.draw(study)
    assert "<svg" in drawn.svg
    told = [f"at {size}" in drawn.caption[-1] for size in losses]
    assert told == [math.isfinite(loss) for loss in losses.values()]


def test_batch_norm_is_told_and_refused_where_there_is_none() -> None:
    study = batch_size.measure(BatchSizeKnobs(**{**SMALL, "norm": "batch", "seeds": 1}))
    assert study.rows_meet
    assert "Rows of a batch meet in its norm" in batch_size.draw(study).caption[1]
    with pytest.raises(PellucidError, match="logistic has no"):
        batch_size.measure(BatchSizeKnobs(**{**SMALL, "model": "logistic", "norm": "batch"}))
    with pytest.raises(PellucidError, match="leaves 285 examples to train on, and one batch size"):
        batch_size.measure(BatchSizeKnobs(**{**SMALL, "batch_sizes": (500, 1000)}))
    with pytest.raises(PellucidError, match=r"one of the batch sizes is 2\.5"):
        BatchSizeKnobs(batch_sizes=(2.5, 4))


def test_the_caption_has_the_numbers() -> None:
    study = batch_size.measure(BatchSizeKnobs(**SMALL))
    said = batch_size.draw(study).caption
    assert "a tiny mlp of 703 parameters on 285 examples, adamw with rate 0.003. 2 seeds; bars are" in said[0]
    assert f"Noise falls as B to the −{abs(study.exponent):.2f}" in said[1]
    mean = sum(study.sizes[0].losses_by_epochs) / 2
    assert f"at equal epochs (0.225): {mean:.4g} at 4" in said[3]
    doubled = batch_size.measure(BatchSizeKnobs(**{**SMALL, "scaling": "linear", "seeds": 1}))
    assert doubled.learning_rate == study.learning_rate
    assert "rate 0.003 · B." in batch_size.draw(doubled).caption[0]


def test_fair_batches_of_pairs_are_drawn_whatever_their_length() -> None:
    pairs = [([1] * (1 + row % 20), [1]) for row in range(400)]
    fair, sorted_ = (PairBatches(pairs, 20, seed=0, by_length=by_length) for by_length in (False, True))
    for batches in (fair, sorted_):
        rows = np.concatenate([batches.rows(step) for step in range(1, 21)])
        assert sorted(rows) == list(range(400))
    spread = [
        np.mean([np.std([len(pairs[row][0]) for row in batches.rows(step)]) for step in range(1, 21)])
        for batches in (fair, sorted_)
    ]
    assert spread[0] > 5 > 2 > spread[1]  # of 1 to 20 letters the deviation is 5.8
