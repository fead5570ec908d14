"""Optimizers beside torch's and beside the paper's formula in plain loops; a resumed one goes on bit by bit."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from pellucid.errors import PellucidError
from pellucid.models.catalogue import find_network
from pellucid.models.sequences.transformer import Transformer
from pellucid.records import Plan
from pellucid.training import muon as muon_file
from pellucid.training.muon import (
    COEFFICIENTS,
    LEVELLING,
    Muon,
    level_rows,
    momentum_at,
    orthogonalize,
    orthogonalize_by_torch,
)
from pellucid.training.optimizers import BETAS, OPTIMIZERS, build_optimizer, hidden_matrices

MODEL = find_network("transformer", "list")

PLAN = Plan(
    steps=10,
    batch_size=4,
    context=8,
    optimizer="adamw",
    learning_rate=0.01,
    matrix_learning_rate=0.02,
    momentum=0.9,
    weight_decay=0.1,
    clip=1.0,
    warmup=2,
    schedule="linear",
    evaluate_every=5,
    probe_every=5,
    sample_every=5,
    save_every=5,
    threads=1,
    seed=0,
)


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def give_gradients(model: nn.Module, step: int) -> None:
    draw = torch.Generator().manual_seed(step)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype)


def test_sgd_and_adamw_are_torchs():
    for name in ("sgd", "adamw"):
        ours, theirs = network(), network()
        matrices = [p for p in theirs.parameters() if p.ndim > 1]
        rows = [p for p in theirs.parameters() if p.ndim < 2]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": rows, "weight_decay": 0.0}]
        peer = (
            torch.optim.SGD(groups, lr=0.01, momentum=0.9)
            if name == "sgd"
            else torch.optim.AdamW(groups, lr=0.01, betas=BETAS)
        )
        optimizer = build_optimizer(ours, PLAN._replace(optimizer=name))
        for step in range(1, 8):
            give_gradients(ours, step)
            give_gradients(theirs, step)
            optimizer.step(1 / step)
            for group in peer.param_groups:
                group["lr"] = 0.01 / step
            peer.step()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(one, other, atol=1e-7)
        optimizer.zero_grad()
        assert all(parameter.grad is None for parameter in ours.parameters())


def by_formula(matrix: list[list[float]]) -> list[list[float]]:
    """Newton–Schulz as the papers print it, in plain loops."""

    def product(x: list[list[float]], y: list[list[float]]) -> list[list[float]]:
        return [[sum(p * q for p, q in zip(row, column, strict=True)) for column in zip(*y, strict=True)] for row in x]

    gram = product(matrix, [list(column) for column in zip(*matrix, strict=True)])
    norm = sum(value**2 for row in gram for value in row) ** 0.25
    x = [[value / norm for value in row] for row in matrix]
    for a, b, c in COEFFICIENTS:
        gram = product(x, [list(column) for column in zip(*x, strict=True)])
        square = product(gram, gram)
        mixed = [[b * p + c * q for p, q in zip(*rows, strict=True)] for rows in zip(gram, square, strict=True)]
        moved = product(mixed, x)
        x = [[a * p + q for p, q in zip(*rows, strict=True)] for rows in zip(x, moved, strict=True)]
    return x


@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (3, 5), (3, 6), (4, 16), (1, 4)])
def test_newton_schulz_is_the_papers(rows, columns):
    draw = torch.Generator().manual_seed(rows + columns)
    matrices = torch.randn(2, rows, columns, generator=draw, dtype=torch.float64)
    found = orthogonalize(matrices)
    for matrix, one in zip(matrices, found, strict=True):
        assert torch.allclose(one, torch.tensor(by_formula(matrix.tolist()), dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(32, 32), (32, 40), (32, 128), (16, 16)])
def test_singular_values_come_near_one_and_directions_stay(rows, columns):
    matrices = torch.randn(3, rows, columns, generator=torch.Generator().manual_seed(0))
    found = orthogonalize(matrices)
    left, sizes, right = torch.linalg.svd(matrices, full_matrices=False)
    seen = torch.linalg.svdvals(found)
    # What was almost zero is still on its way up after all steps.
    is_large = sizes > 0.01 * (sizes**4).sum(1, keepdim=True) ** 0.25
    along = torch.einsum("nri,nrc,nic->ni", left, found, right)
    assert ((along > 0.72) & (along < 1.28))[is_large].all()
    assert seen.max() < 1.28
    assert (found - left @ torch.diag_embed(along) @ right).abs().max() < 1e-2


@pytest.mark.parametrize("shape", [(3, 128, 128), (2, 64, 256), (2, 27, 45), (1, 1, 5), (2, 16, 16), (1, 100, 130)])
def test_newton_schulz_in_c_is_that_of_torch(shape, monkeypatch):
    compiled = pytest.importorskip("pellucid.training._orthogonalize", reason="it was installed without a C compiler")
    if not compiled.is_supported():
        pytest.skip("this processor has no AVX2, and torch's products are used")
    monkeypatch.setattr(muon_file, "orthogonalize_by_torch", None)  # what follows does not come from there
    matrices = (
        torch.randn(shape, generator=torch.Generator().manual_seed(1)) * torch.logspace(-3, 3, shape[0])[:, None, None]
    )
    found = orthogonalize(matrices)
    assert (found.double() - orthogonalize_by_torch(matrices.double())).abs().max() < 1e-3
    assert torch.equal(found, orthogonalize(matrices.clone()))
    assert torch.equal(found[-1:], orthogonalize(matrices[-1:]))  # each for itself, whatever stands before it
    turned = torch.randn(shape[0], shape[2], shape[1]).mT  # not contiguous
    assert torch.equal(orthogonalize(turned), orthogonalize(turned.contiguous()))


@pytest.mark.parametrize("shape", [(2, 128, 128), (1, 64, 250), (1, 96, 100), (1, 27, 45)])
def test_newton_schulz_in_c_has_the_same_bits_by_vectors_of_any_length(shape):
    compiled = pytest.importorskip("pellucid.training._orthogonalize", reason="it was installed without a C compiler")
    if not compiled.is_supported():
        pytest.skip("this processor has no AVX2, and torch's products are used")
    matrices = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    by_longest, by_short = np.empty_like(matrices), np.empty_like(matrices)
    coefficients = np.array(COEFFICIENTS, np.float32)
    compiled.orthogonalize(matrices, by_longest, *shape[1:], coefficients)
    compiled.orthogonalize(matrices, by_short, *shape[1:], coefficients, True)
    assert np.array_equal(by_longest, by_short)


def test_a_step_of_muon_in_c_is_that_of_torch(monkeypatch):
    pytest.importorskip("pellucid.training._orthogonalize", reason="it was installed without a C compiler")
    if not muon_file._orthogonalize.is_supported():
        pytest.skip("this processor has no AVX2, and torch's products are used")
    shapes = {"stack": (3, 48, 48), "tall": (64, 16), "wide": (32, 80)}
    found = []
    for is_compiled in (True, False):
        draw = torch.Generator().manual_seed(0)
        parameters = {name: nn.Parameter(torch.randn(shape, generator=draw)) for name, shape in shapes.items()}
        muon = Muon(parameters, learning_rate=0.1, weight_decay=0.5)
        if is_compiled:
            monkeypatch.setattr(muon, "_step_in_torch", None)
        else:
            monkeypatch.setattr(muon, "_is_compiled_for", lambda stack: False)
        for step in range(4):
            for parameter in parameters.values():
                gradient = torch.randn(parameter.shape, generator=draw)
                parameter.grad = gradient.mT.contiguous().mT if step % 2 else gradient
            parameters["wide"].grad = None if step == 3 else parameters["wide"].grad
            muon.step(0.5)
        found.append({**parameters, **muon.tensors()})
    for name, of_torch in found[1].items():
        assert torch.allclose(found[0][name], of_torch, rtol=1e-5, atol=1e-5), name


def test_a_step_of_muon_in_c_takes_nothing_that_does_not_fit():
    compiled = pytest.importorskip("pellucid.training._orthogonalize", reason="it was installed without a C compiler")
    whole, coefficients = [np.zeros(512, np.float32) for _ in range(3)], np.array(COEFFICIENTS, np.float32)
    rest = (coefficients, 0.9, 0.9, 1e-12, 1.0, 0.1)
    for given in [
        (*whole, np.zeros(32, np.float32), 16, 32, False),  # squares of columns, and rows are levelled
        (*whole, np.zeros(16, np.float32), 16, 32, True),
        (*whole[:2], np.zeros(256, np.float32), np.zeros(16, np.float32), 16, 32, False),
        (*whole, np.zeros(8, np.float32), 8, 64, False),  # no whole vectors
    ]:
        with pytest.raises(ValueError, match="fit"):
            compiled.step(*given, *rest)


def test_newton_schulz_in_c_takes_nothing_that_does_not_fit():
    compiled = pytest.importorskip("pellucid.training._orthogonalize", reason="it was installed without a C compiler")
    numbers, coefficients = np.zeros(12, np.float32), np.array(COEFFICIENTS, np.float32)
    for rows, columns, given in [
        (4, 3, coefficients),  # taller than wide
        (3, 5, coefficients),  # no whole number of matrices
        (0, 4, coefficients),
        (3, 4, coefficients.ravel()[:4]),
        (3, 4, coefficients[:0]),
    ]:
        with pytest.raises(ValueError, match="coefficients"):
            compiled.orthogonalize(numbers, numbers.copy(), rows, columns, given)
    with pytest.raises(ValueError, match="coefficients"):
        compiled.orthogonalize(numbers, numbers[:8].copy(), 2, 2, coefficients)


def test_a_gradient_of_zero_moves_nothing():
    assert torch.equal(orthogonalize(torch.zeros(1, 3, 4)), torch.zeros(1, 3, 4))


def test_a_row_that_never_moves_stays():
    update = torch.tensor([[[0.0, 0.0], [2.0, 2.0]]])
    assert torch.allclose(level_rows(update.clone(), torch.zeros(1, 2, 1)), update)
    assert torch.equal(level_rows(torch.zeros(1, 2, 3), torch.zeros(1, 1, 3)), torch.zeros(1, 2, 3))


def test_muon_steps_along_the_orthogonalised_momentum():
    """One stack, one tall and one wide matrix, against the rule written for each alone."""
    shapes = {"stack": (3, 4, 4), "tall": (8, 4), "wide": (4, 8)}
    draw = torch.Generator().manual_seed(0)
    parameters = {
        name: nn.Parameter(torch.randn(shape, generator=draw, dtype=torch.float64)) for name, shape in shapes.items()
    }
    wanted = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    momenta = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    squares = {name: torch.zeros(shape[:-1], dtype=torch.float64) for name, shape in shapes.items()}
    muon = Muon(parameters, learning_rate=0.1, weight_decay=0.5)
    kept = momentum_at(0.5)
    assert momentum_at(1) > kept > momentum_at(0.0)
    for _ in range(3):
        for name, parameter in parameters.items():
            gradient = torch.randn(shapes[name], generator=draw, dtype=torch.float64)
            parameter.grad = gradient.clone()
            momenta[name] = kept * momenta[name] + (1 - kept) * gradient
            ahead = kept * momenta[name] + (1 - kept) * gradient
            pieces = ahead.reshape(-1, *ahead.shape[-2:])
            update = torch.stack(
                [torch.tensor(by_formula(p.tolist()) if name != "tall" else by_formula(p.T.tolist())) for p in pieces]
            ).double()
            update = (update.mT if name == "tall" else update).reshape(ahead.shape)
            # Rows that are longer than others step after step are levelled, and the whole is as long as before.
            squares[name] = LEVELLING * squares[name] + (1 - LEVELLING) * update.square().mean(-1)
            levelled = update / squares[name].sqrt()[..., None]
            update = levelled * (update.norm(dim=(-2, -1)) / levelled.norm(dim=(-2, -1)))[..., None, None]
            wanted[name] = wanted[name] * (1 - 0.05 * 0.5) - 0.05 * (math.sqrt(2) if name == "tall" else 1) * update
        muon.step(0.5)
    for name, parameter in parameters.items():
        assert torch.allclose(parameter, wanted[name], atol=1e-6)


def test_muon_takes_hidden_matrices_alone():
    model = Transformer(MODEL.tiny)
    assert {name.split(".", 2)[2] for name in hidden_matrices(model)} == {
        "attention.project",
        "attention.combine.weight",
        "feed_forward.expand.weight",
        "feed_forward.contract.weight",
    }


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_resumed_optimizer_goes_on_bit_by_bit(name):
    plan = PLAN._replace(optimizer=name)

    def run(model: nn.Module, optimizer: object, steps: range) -> None:
        for step in steps:
            give_gradients(model, step)
            optimizer.step(1 / step)  # type: ignore[attr-defined]

    torch.manual_seed(0)
    whole = Transformer(MODEL.tiny)
    first = Transformer(MODEL.tiny)
    first.load_state_dict(whole.state_dict())
    run(whole, build_optimizer(whole, plan), range(1, 8))
    before = build_optimizer(first, plan)
    assert not any(tensor.any() for tensor in before.tensors().values())
    run(first, before, range(1, 4))
    saved = {name: tensor.clone() for name, tensor in before.tensors().items()}
    second = Transformer(MODEL.tiny)
    second.load_state_dict(first.state_dict())
    after = build_optimizer(second, plan)
    after.load(saved)
    assert all(torch.equal(tensor, saved[name]) for name, tensor in after.tensors().items())
    assert after.tensors().keys() == saved.keys()
    run(second, after, range(4, 8))
    for one, other in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_another_networks_state_is_refused():
    saved = build_optimizer(network(), PLAN._replace(optimizer="muon")).tensors()
    other = build_optimizer(nn.Sequential(nn.Linear(5, 6)), PLAN._replace(optimizer="muon"))
    with pytest.raises(PellucidError, match=r"0\.weight\.momentum of the optimizer has shape \(1, 4, 6\)"):
        other.load(saved)
    with pytest.raises(PellucidError, match=r"0\.weight\.momentum of the optimizer is missing"):
        other.load({})


def test_an_unknown_optimizer_brings_the_nearest():
    with pytest.raises(PellucidError, match=r"'adam'\. Perhaps you meant adamw"):
        build_optimizer(network(), PLAN._replace(optimizer="adam"))


def test_the_names_of_optimizers_are_known_without_torch():
    code = "import sys; from pellucid.training.optimizers import OPTIMIZERS; print(*OPTIMIZERS, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*OPTIMIZERS, "False"]
