"""Linear layers of a training step by oneDNN and by torch: the same numbers but for the last digits, there and back."""

import contextlib

import numpy as np
import pytest
import torch
from torch.nn import functional

from pellucid.data.options import DataOptions
from pellucid.training import products
from pellucid.training.options import TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.products import FastProducts, fast_products
from pellucid.training.tasks import open_task
from pellucid.training.trainer import build_training

CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch was built without oneDNN"
)


@pytest.fixture
def n_multiplied(monkeypatch):
    """How often oneDNN was asked, in a list."""
    asked = []
    multiply = products._multiply
    monkeypatch.setattr(products, "_multiply", lambda *given: asked.append(1) or multiply(*given))
    return asked


@pytest.mark.parametrize("shape", [(918, 64), (12, 64, 128), (64, 300), (1, 2000)], ids=str)
@pytest.mark.parametrize("has_bias", [True, False])
def test_products_and_slopes_are_those_of_double_precision(shape, has_bias, monkeypatch, n_multiplied):
    monkeypatch.setattr(products, "LEAST", 1)
    draw = torch.Generator().manual_seed(1)
    x, weight, bias = (torch.randn(*size, generator=draw) for size in (shape, (55, shape[-1]), (55,)))
    given = [one.requires_grad_() for one in ((x, weight, bias) if has_bias else (x, weight))]
    exact = [one.detach().double().requires_grad_() for one in given]
    with FastProducts():
        found = functional.linear(*given)
    wanted = functional.linear(*exact)
    slopes = torch.randn(wanted.shape, generator=draw)
    found.backward(slopes)
    wanted.backward(slopes.double())
    assert len(n_multiplied) == 3
    np.testing.assert_allclose(found.detach(), wanted.detach(), rtol=1e-4, atol=1e-4)
    for one, twin in zip(given, exact, strict=True):
        np.testing.assert_allclose(one.grad, twin.grad, rtol=1e-4, atol=2e-4)


def test_only_what_pays_in_a_training_step_is_multiplied_so(n_multiplied):
    large, weight = torch.randn(1024, 64), torch.randn(64, 64, requires_grad=True)
    with FastProducts():
        functional.linear(large[:8], weight)
        functional.linear(large.double(), weight.double())
        with torch.no_grad():
            functional.linear(large, weight)
        assert not n_multiplied
        functional.linear(large, weight)
    assert len(n_multiplied) == 1


def test_it_is_used_on_processors_on_which_it_was_measured_and_in_full_precision(monkeypatch, tmp_path):
    task = open_task(DataOptions("names"))
    _, plan = choose_plan(task.find_card("transformer"), task, TrainOptions(steps=5, size="tiny"))
    monkeypatch.setattr(products, "are_faster_here", lambda: True)
    assert isinstance(fast_products(plan, CPU), FastProducts)
    for other in (plan._replace(precision="bf16"), plan._replace(is_compiled=True)):
        assert isinstance(fast_products(other, CPU), contextlib.nullcontext)
    assert isinstance(fast_products(plan, torch.device("meta")), contextlib.nullcontext)
    monkeypatch.undo()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(products, "CPUINFO", tmp_path / "cpuinfo")
    found = []
    for maker, family in (("AuthenticAMD", 26), ("AuthenticAMD", 25), ("GenuineIntel", 6)):
        products.CPUINFO.write_text(f"processor\t: 0\nvendor_id\t: {maker}\ncpu family\t: {family}\n\nprocessor\t: 1\n")
        found.append(products.are_faster_here.__wrapped__())
    assert found == [torch.backends.mkldnn.is_available(), False, False]


def test_a_step_has_the_same_loss_and_gradient(monkeypatch, one_thread, n_multiplied):
    monkeypatch.setattr(products, "LEAST", 1 << 14)
    task = open_task(DataOptions("names"))
    card = task.find_card("transformer")
    config, plan = choose_plan(card, task, TrainOptions(steps=5, size="tiny", threads=1))
    seen = {}
    for is_fast in (False, True):
        monkeypatch.setattr(products, "are_faster_here", lambda is_fast=is_fast: is_fast)
        state = build_training(card, config, plan, task)
        loss = state.engine.gradients(state.batches, 1).loss
        seen[is_fast] = loss, [parameter.grad for parameter in state.model.parameters()]
        assert bool(n_multiplied) == is_fast
    assert seen[True][0] == pytest.approx(seen[False][0], abs=1e-6)
    for fast, usual in zip(seen[True][1], seen[False][1], strict=True):
        torch.testing.assert_close(fast, usual, rtol=1e-3, atol=1e-6)
