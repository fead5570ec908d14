"""TabM: its features are quantiles of train, its members networks of their own, and each learns by its own loss."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional

import pellucid
from pellucid.data.options import DataOptions
from pellucid.models.catalogue import find_network
from pellucid.models.examples.configs import TabMConfig
from pellucid.models.examples.tabm import PiecewiseLinear, TabM
from pellucid.training.checkpoints import load_network
from pellucid.training.options import TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.tasks import open_task
from pellucid.training.tasks.batches import make_example_batch

pytestmark = pytest.mark.usefixtures("one_thread")


def test_every_interval_holds_as_many_rows():
    draw = np.random.default_rng(0)
    skewed = torch.from_numpy(np.exp(3 * draw.normal(size=(1_601, 2))).astype(np.float32))
    features = PiecewiseLinear(features=2, bins=16, width=3)
    features.learn_edges(skewed)
    theirs = np.quantile(skewed.numpy(), np.linspace(0, 1, 17), axis=0).T
    assert np.allclose(features.edges.numpy(), theirs)
    passed = features.shares(skewed)
    # As many rows are at the end of an interval as lie above it.
    ended = (passed[:, 0] >= 1).sum(0).numpy()
    assert np.array_equal(ended, 1_601 - 100 * np.arange(1, 17))


def test_shares_are_those_of_a_loop_and_an_interval_without_width_says_nothing():
    features = PiecewiseLinear(features=1, bins=4, width=1)
    features.learn_edges(torch.tensor([[0.0], [0.0], [0.0], [2.0], [6.0]]))
    edges = features.edges[0].tolist()
    assert edges == [0, 0, 0, 2, 6]
    for value in (-1.0, 0.0, 0.5, 2.0, 3.0, 6.0, 99.0):
        expected = [
            min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0
            for low, high in itertools.pairwise(edges)
        ]
        assert features.shares(torch.tensor([[value]]))[0, 0].tolist() == expected


def test_a_member_is_an_mlp_with_matrices_of_its_own():
    """diag(after) · W · diag(before): what the members share is W alone."""
    torch.manual_seed(0)
    model = TabM(
        TabMConfig(numbers=(3,), categories=(4,), outputs=2, hidden=8, members=3, bins=4, embedding=2)
    ).double()
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter)
    numbers, codes = torch.randn(6, 3).double(), torch.randint(0, 4, (6, 1))
    assert model.numbers is not None
    row = model.columns(model.numbers(numbers).flatten(1), codes)
    for member, scores in enumerate(model.member_scores(numbers, codes).unbind(1)):
        x = row
        for layer in model.layers:
            before, after, bias = (part.view(3, -1)[member] for part in (layer.before, layer.after, layer.bias))
            x = functional.linear(x, after[:, None] * layer.weight * before, bias).relu()
        assert torch.allclose(x @ model.head[member] + model.bias.view(3, -1)[member], scores)
    assert torch.equal(model(numbers, codes), model.member_scores(numbers, codes).mean(1))


@pytest.mark.parametrize("target", ["species", "body_mass_g"])
def test_each_member_learns_by_its_own_loss(target):
    task = open_task(DataOptions(source="penguins", target=target))
    card = find_network("tabm", "table")
    config, plan = choose_plan(card, task, TrainOptions(kind="table", model="tabm", steps=10, network={"members": 3}))
    model = task.build_network(card, config, plan).eval()
    assert isinstance(model, TabM)
    batch = make_example_batch(task.sides.train.rows(slice(0, 20)))
    members = model.member_scores(batch.numbers, batch.codes).unbind(1)
    of = functional.cross_entropy if target == "species" else lambda said, true: ((said[:, 0] - true) ** 2).mean()
    losses = torch.stack([of(scores, batch.targets) for scores in members])
    assert torch.allclose(task.loss_function(plan)(model, batch), losses.mean())


def test_a_run_keeps_the_edges_of_train(tmp_path, monkeypatch):
    """The network that predicts tomorrow reads numbers as the one that was trained did."""
    monkeypatch.chdir(tmp_path)
    run = pellucid.train("penguins", target="species", steps=30, name="few")
    assert run.report.network.name == "tabm"  # the default for tables
    model, _ = load_network(run.run)
    numbers = open_task(DataOptions(source="penguins", target="species")).sides.train.numbers
    assert isinstance(model, TabM)
    assert model.numbers is not None
    assert np.array_equal(model.numbers.edges[:, 0], numbers.min(0))
    assert np.array_equal(model.numbers.edges[:, -1], numbers.max(0))


def test_the_batch_is_smaller_where_rows_are_few():
    recipe = find_network("tabm", "table").recipe
    sizes = {}
    for n in (40, 500, 3_000, 100_000):
        task = open_task(DataOptions(source="penguins", target="species"))
        object.__setattr__(task.sides, "train", task.sides.train.rows(np.arange(n) % len(task.sides.train)))
        sizes[n] = task.batch_size_for(recipe)
    assert sizes == {40: 32, 500: 32, 3_000: 128, 100_000: 256}
