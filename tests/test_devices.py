"""Devices, precision and compiled code: what is chosen, what is refused, and that nothing stays on the CPU."""

import numpy as np
import pytest
import torch
from trust.kills import write_data

from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError
from pellucid.figures.words.training import plan_lines
from pellucid.training.devices import available_devices, choose_device
from pellucid.training.engine import Engine
from pellucid.training.options import TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.sharding import like_shards, load_weights, whole_tensors
from pellucid.training.tasks import open_task
from pellucid.training.tasks.task import batch_to
from pellucid.training.trainer import build_training, network_facts


@pytest.fixture
def state(tmp_path):
    write_data(tmp_path)
    task = open_task(DataOptions(source=str(tmp_path / "names.txt")))
    card = task.find_card("transformer")
    config, plan = choose_plan(card, task, TrainOptions(model="transformer", size="tiny", steps=3, threads=1))
    return build_training(card, config, plan, task)


def test_the_best_device_is_chosen_and_one_that_is_not_there_is_refused(monkeypatch):
    assert choose_device("auto") == available_devices()[0]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(PellucidError, match="there is no CUDA device here"):
        choose_device("cuda")
    with pytest.raises(PellucidError, match="cudda"):
        TrainOptions(device="cudda")


def test_a_batch_moves_as_a_whole(state):
    batch = state.batches.batch(1)
    moved = batch_to(batch, torch.device("meta"))
    assert {one.device.type for one in moved if isinstance(one, torch.Tensor)} == {"meta"}
    assert moved.n_tokens == batch.n_tokens
    assert batch_to(batch, torch.device("cpu")) is batch


def test_nothing_of_a_step_stays_on_the_cpu(state):
    """Forward, backward and update on another device: there an operand that was left on the CPU is an error.

    Items of one length, since that device cannot say where padding is: it holds no numbers.
    """
    device = torch.device("meta")
    state.model.to(device)
    items = state.batches.items
    batch = batch_to(items.collate(np.flatnonzero(items.lengths == items.lengths[0])), device)
    loss = state.task.loss_function(state.plan)(state.model, batch)
    loss.backward()
    assert loss.device == device
    assert {one.grad.device.type for one in state.model.parameters()} == {"meta"}


def test_weights_move_between_devices(state):
    weights = whole_tensors(state.model.state_dict())
    other = torch.nn.Linear(1, 1)
    assert like_shards(weights["network.head.weight"], other.weight.to("meta")).device.type == "meta"
    load_weights(state.model, weights)
    assert torch.equal(state.model.state_dict()["network.head.weight"], weights["network.head.weight"])


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_fewer_bits_give_about_the_same_gradient(state, precision):
    exact = state.engine.gradients(state.batches, 1).loss
    norms = [float(one.grad.norm()) for one in state.model.parameters()]
    state.optimizer.zero_grad()
    plan = state.plan._replace(precision=precision)
    rough = Engine(state.model, state.task.loss_function(plan), plan).gradients(state.batches, 1).loss
    assert rough == pytest.approx(exact, abs=0.02)
    for parameter, norm in zip(state.model.parameters(), norms, strict=True):
        assert parameter.grad.dtype == torch.float32
        assert float(parameter.grad.norm()) == pytest.approx(norm, rel=0.1, abs=1e-3)


def test_precision_by_trial_steps_says_what_was_measured(tmp_path):
    write_data(tmp_path)
    task = open_task(DataOptions(source=str(tmp_path / "names.txt")))
    card = task.find_card("transformer")
    asked = TrainOptions(model="transformer", size="tiny", steps=3, threads=1, precision="auto")
    config, plan = choose_plan(card, task, asked)
    assert plan.precision in ("fp32", "bf16")
    (reason,) = [one for one in plan.reasons if one.kind.startswith("precision")]
    assert reason.kind == ("precision-faster" if plan.precision == "bf16" else "precision-slower")
    facts = network_facts(card, config, build_training(card, config, plan, task).model)
    assert any("ms" in line and "bf16" in line for line in plan_lines(plan, facts))


def test_compiling_is_not_even_tried_where_it_cannot_pay(tmp_path):
    write_data(tmp_path)
    task = open_task(DataOptions(source=str(tmp_path / "names.txt")))
    card = task.find_card("mlp")
    asked = TrainOptions(model="mlp", size="tiny", steps=20, threads=1, compile=True)
    config, plan = choose_plan(card, task, asked)
    assert not plan.is_compiled
    (untried,) = [one for one in plan.reasons if one.kind == "compile-untried"]
    assert untried.facts["at_most"] < untried.facts["least"]
    network = network_facts(card, config, build_training(card, config, plan, task).model)
    assert any("nor tried" in line for line in plan_lines(plan, network))
