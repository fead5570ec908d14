"""Runs on tables, images and pairs: what they reach, what they keep, and that they go on to the same bits."""

import hashlib
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from pellucid.data import open_data
from pellucid.data.options import DataOptions
from pellucid.data.prepare import Examples
from pellucid.errors import PellucidError, Stopped
from pellucid.models.catalogue import find_network
from pellucid.models.examples.configs import ExampleShape
from pellucid.models.settings import SIZES
from pellucid.records import Step, Timing, TrainingReport
from pellucid.training.callbacks import Callbacks
from pellucid.training.options import TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.run import ResumeOptions, resume_run, train_run
from pellucid.training.tasks import open_task
from pellucid.training.tasks.batches import IGNORED, ExampleBatches, PairBatches, make_pair_batch, shift_images
from pellucid.training.tasks.examples import ExampleTask
from pellucid.training.trainer import build_training

LOGISTIC = find_network("logistic", "images")

LOGS = ("metrics", "evaluations", "health", "samples", "findings")
ASKED = {
    "classes": (DataOptions("penguins", target="species"), TrainOptions("mlp", steps=60, kind="table")),
    "numbers": (
        DataOptions("penguins", target="body_mass_g", drop_missing_target=True),
        TrainOptions("residual", steps=60, size="tiny", kind="table", loss="l1"),
    ),
    "images": (DataOptions("digits"), TrainOptions("logistic", steps=60, kind="images", shift=1)),
    "rows": (
        DataOptions("digits", task="reconstruction"),
        TrainOptions("autoencoder", steps=60, size="tiny", kind="images"),
    ),
    "pairs": (DataOptions("dedupe-sort"), TrainOptions("encoder", steps=30, size="tiny", kind="pairs")),
}


def run_of(name: str, place: Path, callbacks: Callbacks | None = None) -> TrainingReport:
    data, wishes = ASKED[name]
    return train_run(data, wishes, place, callbacks or Callbacks())


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One finished run of each kind, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("runs")
    made: dict[str, TrainingReport] = {}

    def of(name: str) -> TrainingReport:
        if name not in made:
            made[name] = run_of(name, folder / name)
        return made[name]

    return of


def fingerprint(run: Path) -> dict[str, str]:
    last = max((run / "checkpoints").glob("step-*"))
    files = [run / f"{log}.jsonl" for log in LOGS]
    files += [run / "model.safetensors", last / "model.safetensors", last / "optimizer.safetensors"]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


class StopAt(Callbacks):
    """Asks to stop after a step."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def on_step(self, step: Step, timing: Timing) -> None:
        if step.step == self.step:
            self.stop.ask(2)


@pytest.mark.parametrize("name", ASKED)
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(name, runs, tmp_path):
    whole = Path(runs(name).folder)
    with pytest.raises(Stopped):
        run_of(name, tmp_path / "stopped", StopAt(17))
    resume_run(tmp_path / "stopped", ResumeOptions(), Callbacks())
    assert fingerprint(tmp_path / "stopped") == fingerprint(whole)


@pytest.mark.parametrize("name", ASKED)
def test_every_run_is_beside_simple_models_and_reads_test_once(name, runs):
    report = runs(name)
    network = next(rung for rung in report.ladder.rungs if not rung.is_counted)
    simple = [rung for rung in report.ladder.rungs if rung.is_counted]
    assert len(simple) >= 2
    merits = [report.ladder.merit(rung) for rung in report.ladder.rungs]
    assert merits == sorted(merits, reverse=True)
    for rung in (network, *simple):
        assert rung.metric is not None
        assert rung.test_metric is not None
        assert rung.metric <= 1
    assert report.answers.metrics[report.ladder.measure.metric] == network.metric
    assert report.evaluations[-1].dev < report.evaluations[0].dev  # it learned something
    assert report.start.is_as_expected


def test_the_loss_and_the_accuracy_are_those_of_a_plain_loop(runs):
    """By hand: the weights from their file, torch's own formulas, one example after another."""
    from safetensors.torch import load_file

    report = runs("images")
    task = open_task(ASKED["images"][0])
    assert isinstance(task, ExampleTask)
    weights = load_file(Path(report.folder) / "model.safetensors")
    model = LOGISTIC.build(LOGISTIC.config(numbers=(1, 8, 8), categories=(), outputs=10))
    model.load_state_dict(weights)
    model = model.double().eval()
    losses, n_right = [], 0
    dev = task.sides.dev
    for numbers, truth in zip(dev.numbers, dev.targets, strict=True):
        scores = model(torch.from_numpy(numbers[None]).double(), torch.zeros(1, 0, dtype=torch.int64))
        losses.append(functional.cross_entropy(scores, torch.tensor([truth])).item())
        n_right += int(scores.argmax()) == truth
    network = next(rung for rung in report.ladder.rungs if not rung.is_counted)
    assert network.dev == pytest.approx(np.mean(losses), rel=1e-5)
    assert network.metric == n_right / len(dev)
    confusion = report.answers.confusion
    assert sum(row[place] for place, row in enumerate(confusion.counts)) == n_right
    assert sum(map(sum, confusion.counts)) == len(dev)
    assert sum(one.n for one in report.answers.calibration.bins) == len(dev)


def test_a_number_is_told_in_its_own_units(runs):
    answers = runs("numbers").answers
    truth, said = np.array(answers.points).T
    assert answers.metrics["MAE"] == pytest.approx(np.abs(truth - said).mean(), rel=1e-6)
    assert answers.metrics["R²"] == pytest.approx(1 - ((truth - said) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
    table = open_data("penguins").frame["body_mass_g"].drop_nulls().to_list()
    assert all(min(abs(value - known) for known in table) < 1e-3 for value in truth)


def test_the_answers_of_pairs_are_checked_letter_by_letter(runs):
    answers = runs("pairs").answers
    for one in answers.examples:
        assert one.truth == "".join(sorted(set(one.what)))
        assert one.is_right == (one.answer == one.truth)
    assert [one.is_right for one in answers.examples] == sorted(one.is_right for one in answers.examples)


def test_pairs_are_compared_answer_by_answer_with_the_best_simple_model(runs):
    """The share right of both, and with it what one earns, follow from the units that the interval is made of."""
    network, *simple = sorted(runs("pairs").ladder.rungs, key=lambda rung: rung.is_counted)
    best = max(simple, key=lambda rung: rung.metric)
    for gain, ours, theirs in zip(
        network.gains, (network.metric, network.test_metric), (best.metric, best.test_metric), strict=True
    ):
        assert gain.mean == pytest.approx(ours - theirs, abs=1e-9)
        assert gain.low < gain.mean < gain.high
    task = open_task(ASKED["pairs"][0])
    assert [gain.n for gain in network.gains] == [len(task.sides.dev), len(task.sides.test)]


def test_what_a_reconstruction_shows_is_what_went_in_and_came_out(runs):
    report = runs("rows")
    task = open_task(ASKED["rows"][0])
    digits = open_data("digits").pixels
    for one in report.answers.examples[:5]:
        row = int(one.what.split()[1].replace(",", "")) - 1
        assert np.abs(np.array(one.pixels, dtype=int) - digits[row]).max() <= 1
        assert len(one.answer_pixels) == 8
    mean = task.sides.train.numbers.reshape(len(task.sides.train), -1).mean(0)
    dev = task.sides.dev.numbers.reshape(len(task.sides.dev), -1)
    assert report.start.uniform == pytest.approx((dev**2).mean(), rel=1e-5)
    assert report.start.label_entropy == pytest.approx(((dev - mean) ** 2).mean(), rel=1e-5)


def test_a_penalty_pulls_the_weights():
    task = open_task(ASKED["images"][0])
    norms = {}
    for strength in (0.0, 0.5):
        training = {"penalty": "l2", "strength": strength, "optimizer": "sgd", "learning_rate": 0.1}
        wishes = TrainOptions("logistic", steps=40, kind="images", **training)
        card = task.find_card("logistic")
        config, plan = choose_plan(card, task, wishes)
        state = build_training(card, config, plan, task)
        loss_function = task.loss_function(plan)
        for step in range(1, 41):
            state.optimizer.zero_grad()
            loss_function(state.model, state.batches.batch(step)).backward()
            state.optimizer.step(1.0)
        norms[strength] = sum(parameter.square().sum().item() for parameter in state.model.parameters())
    assert norms[0.5] < 0.5 * norms[0.0]


def test_fewer_examples_leave_dev_and_test_alone(tmp_path):
    whole, few = (open_task(DataOptions("digits", examples=n)) for n in (0, 100))
    assert (len(few.sides.train), len(few.sides.dev)) == (100, len(whole.sides.dev))
    assert (few.sides.test.numbers == whole.sides.test.numbers).all()


def test_an_epoch_of_examples_has_each_once_and_a_step_has_its_batch_alone():
    examples = Examples(np.zeros((23, 2), np.float32), np.zeros((23, 0), np.int64), np.arange(23))
    batches = ExampleBatches(examples, batch_size=5, seed=4)
    seen = [batches.batch(step).targets.tolist() for step in range(1, 2 * batches.per_epoch + 1)]
    for epoch in (seen[: batches.per_epoch], seen[batches.per_epoch :]):
        assert sorted(target for batch in epoch for target in batch) == list(range(23))
    assert seen[: batches.per_epoch] != seen[batches.per_epoch :]
    fresh = ExampleBatches(examples, batch_size=5, seed=4)
    assert fresh.batch(7).targets.tolist() == seen[6]


def test_a_shift_moves_an_image_as_a_loop_would():
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(4, 2, 5, 6, generator=draw)
    by = torch.tensor([[0, 1, -2, 2], [0, -1, 2, 1]])
    moved = shift_images(images, by)
    for image in range(4):
        for row in range(5):
            for column in range(6):
                from_row = min(max(row - int(by[0, image]), 0), 4)
                from_column = min(max(column - int(by[1, image]), 0), 5)
                assert torch.equal(moved[image, :, row, column], images[image, :, from_row, from_column])


@pytest.mark.parametrize("name", ["cnn", "residual-cnn", "vit"])
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 48, 36)], ids=str)
def test_the_parameters_of_image_networks_are_estimated_well_enough(name, shape):
    card = find_network(name, "images")
    for size in SIZES:
        config = card.of_size(size, ExampleShape(shape, (), 10))
        # By it the plan chooses threads, and guesses how much faster a smaller size is.
        assert 0.4 < ExampleTask.estimate_parameters(config) / card.build(config).n_parameters < 2.5, size


@pytest.mark.parametrize(
    ("data", "steps", "asked", "shift"),
    [
        ("house-numbers:n=200", 40, None, 1),
        ("house-numbers:n=200", 200, None, 3),
        ("house-numbers:n=200", 200, 2, 2),
        ("digits", 2_000, None, 1),  # of 8 × 8 pixels
    ],
)
def test_images_that_are_seen_often_are_moved_further(data, steps, asked, shift):
    task = open_task(DataOptions(data))
    options = TrainOptions("residual-cnn", steps=steps, kind="images", size="tiny", shift=asked)
    assert choose_plan(task.find_card("residual-cnn"), task, options)[1].shift == shift


@pytest.mark.parametrize(("n", "batch_size"), [(500, 10), (7, 2), (5, 8), (1, 1), (9, 1)])
def test_each_pair_comes_once_in_an_epoch_and_little_is_padded(n, batch_size):
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 20, n)
    pairs = [([1 + i % 9] * int(length), [1 + i % 9] * int(length + 1)) for i, length in enumerate(lengths)]
    batches = PairBatches(pairs, batch_size, seed=3)
    n_padded = n_read = 0
    for step in range(1, batches.per_epoch + 1):
        batch, rows = batches.batch(step), batches.rows(step)
        assert batch.n_tokens == int((batch.targets != IGNORED).sum()) == sum(len(pairs[row][1]) + 1 for row in rows)
        n_read += batch.sources.numel() + batch.tokens.numel()
        n_padded += int((batch.sources == 0).sum() + (batch.targets == IGNORED).sum())
    assert sorted(row for step in range(1, batches.per_epoch + 1) for row in batches.rows(step)) == list(range(n))
    if n == 500:
        assert n_padded / n_read < 0.25  # without sorting 45 %
    fresh = PairBatches(pairs, batch_size, seed=3)
    assert np.array_equal(fresh.rows(batches.per_epoch + 1), batches.rows(batches.per_epoch + 1))


def test_pairs_are_padded_and_shifted_by_one():
    batches = PairBatches([([1, 2, 3], [2, 3]), ([4], [4]), ([5, 6], [5])], batch_size=2, seed=1)
    for step in (1, 2):
        batch = batches.batch(step)
        assert batch.n_tokens == int((batch.targets != IGNORED).sum())
        for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
            kept = [token for token in targets if token != IGNORED]
            assert tokens[: len(kept)] == [0, *kept[:-1]]
            assert kept[-1] == 0


@pytest.mark.parametrize(
    ("data", "model", "words"),
    [
        (DataOptions("penguins", target="species"), "autoencoder", "Add task='reconstruction'"),
        (DataOptions("digits", task="reconstruction"), "cnn", "Choose model='autoencoder'"),
        (DataOptions("digits", task="regression"), "cnn", "Leave task out"),
        (DataOptions("penguins"), "mlp", "Add target='species'"),
        (DataOptions("penguins", target="speces"), "mlp", "Perhaps you meant 'species'"),
        (DataOptions("digits", examples=10**6), "cnn", "Choose 1 to"),
    ],
    ids=str,
)
def test_what_does_not_fit_together_is_refused(data, model, words):
    with pytest.raises(PellucidError) as refused:
        open_task(data).find_card(model)
    assert words in str(refused.value)


def test_a_run_keeps_what_its_network_needs_and_no_path(runs):
    for name, file in (("classes", "preparation.json"), ("images", "preparation.json"), ("pairs", "vocabulary.json")):
        folder = Path(runs(name).folder)
        assert json.loads((folder / file).read_text())
        assert str(folder) not in (folder / "run.json").read_text()


def test_the_metric_is_in_the_log_of_evaluations(runs):
    evaluations = runs("images").evaluations
    assert all(0 <= one.metric <= 1 for one in evaluations)
    assert evaluations[-1].metric > evaluations[0].metric
    assert all(one.metric is None for one in runs("pairs").evaluations)


def test_a_target_that_is_a_number_has_deviation_one():
    task = open_task(ASKED["numbers"][0])
    assert task.sides.train.targets.std() == pytest.approx(1, rel=1e-3)
    assert all(0.3 < loss < 3 for loss in task.losses_without_a_network)


def test_a_batch_of_pairs_is_filled_up_as_row_by_row():
    """Pairs of every length, with nothing on either side too: each row holds its own tokens, its end, and padding."""
    rng = random.Random(0)
    pairs = [
        ([rng.randrange(1, 9) for _ in range(rng.randrange(5))], [rng.randrange(1, 9) for _ in range(rng.randrange(7))])
        for _ in range(200)
    ]
    batch = make_pair_batch(pairs)
    assert batch.n_tokens == sum(len(target) + 1 for _, target in pairs)
    for row, (source, target) in enumerate(pairs):
        wide, long = batch.sources.shape[1], batch.tokens.shape[1]
        assert batch.sources[row].tolist() == source + [0] * (wide - len(source))
        assert batch.tokens[row].tolist() == [0, *target] + [0] * (long - 1 - len(target))
        assert batch.targets[row].tolist() == [*target, 0] + [IGNORED] * (long - 1 - len(target))
    assert [tuple(part.shape) for part in make_pair_batch([])[:3]] == [(0, 1), (0, 1), (0, 1)]
