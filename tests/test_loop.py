"""The loop: it learns, it goes on bit by bit, and it stops before it writes what is no number; and evaluation."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from pellucid.data.prepare.tokens import Corpus
from pellucid.errors import NotFinite
from pellucid.inspection.instrument.weight_growth import KEPT, USUAL, WeightSizes
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.records import Plan, Step
from pellucid.training.loop import mean_token_loss, steps
from pellucid.training.optimizers import OPTIMIZERS, build_optimizer
from pellucid.training.tasks.batches import make_batches
from pellucid.training.tasks.sequences import evaluate_loss

CONFIG = TransformerConfig(vocab_size=6, context=10, width=16, depth=2, n_heads=2, dropout=0.1)
PLAN = Plan(
    steps=60,
    batch_size=8,
    context=10,
    optimizer="muon",
    learning_rate=0.01,
    matrix_learning_rate=0.02,
    momentum=0.9,
    weight_decay=0.01,
    clip=1.0,
    warmup=5,
    schedule="linear",
    evaluate_every=10,
    probe_every=10,
    sample_every=10,
    save_every=10,
    threads=1,
    seed=0,
)


def side(n: int = 40) -> Corpus:
    """Items that climb, as 1 2 3 or 2 3 4 5: after a number comes the next one, or the end."""
    draw = np.random.default_rng(0)
    stream = [0]
    for _ in range(n):
        first, length = draw.integers(1, 3), draw.integers(2, 4)
        stream += [*range(first, first + length), 0]
    return Corpus(np.array(stream, np.uint8), True)


def new_model(config: TransformerConfig = CONFIG) -> Transformer:
    torch.manual_seed(0)
    return Transformer(config)


def run(plan: Plan, model: Transformer, first: int = 1, last: int = 10**9, optimizer=None) -> list[Step]:
    optimizer = optimizer or build_optimizer(model, plan)
    found = []
    for step in steps(
        model, make_batches(side(), plan.batch_size, plan.context, plan.seed), optimizer, plan, first=first
    ):
        found.append(step)
        if step.step == last:
            break
    return found


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_it_learns(optimizer):
    model = new_model()
    plan = PLAN._replace(optimizer=optimizer, learning_rate=3 * OPTIMIZERS[optimizer].learning_rate)
    seen = run(plan, model)
    assert [step.step for step in seen] == list(range(1, 61))
    assert seen[0].loss == pytest.approx(math.log(6), abs=1e-5)
    # What comes next is one of two, the next number or the end, but for the first and the last.
    assert evaluate_loss(model, side(), 10).nats < 0.8
    assert seen[4].learning_rate == plan.learning_rate
    assert seen[-1].learning_rate == pytest.approx(plan.learning_rate / 55)


def test_the_steps_are_the_textbooks():
    """SGD without momentum, clipping or decay, against the update written by hand."""
    plan = PLAN._replace(
        optimizer="sgd", momentum=0.0, clip=0.0, weight_decay=0.0, schedule="constant", warmup=0, steps=3
    )
    config = TransformerConfig(vocab_size=6, context=10, width=16, depth=2, n_heads=2)
    model, by_hand = new_model(config), new_model(config)
    seen = run(plan, model)
    batches = make_batches(side(), plan.batch_size, plan.context, plan.seed)
    for step in (1, 2, 3):
        tokens, targets = batches.batch(step)[:2]
        losses = functional.cross_entropy(by_hand(tokens).mT, targets, ignore_index=-100, reduction="none")
        loss = losses.sum() / (targets != -100).sum()
        assert seen[step - 1].loss == pytest.approx(loss.item(), abs=1e-6)
        parameters = list(by_hand.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
        assert seen[step - 1].gradient_norm == pytest.approx(norm, rel=1e-5)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= plan.learning_rate * gradient
    for one, other in zip(model.parameters(), by_hand.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("after", [1, 29, 30, 59])
def test_it_goes_on_bit_by_bit(after):
    """With dropout, on and off the edge of an epoch, and after torch's generator was moved by someone else."""
    whole, half = new_model(), new_model()
    seen = run(PLAN, whole)
    optimizer = build_optimizer(half, PLAN)
    before = run(PLAN, half, last=after, optimizer=optimizer)
    saved = {name: tensor.clone() for name, tensor in optimizer.tensors().items()}
    torch.rand(17)
    second = new_model()
    second.load_state_dict(half.state_dict())
    resumed = build_optimizer(second, PLAN)
    resumed.load(saved)
    assert before + run(PLAN, second, first=after + 1, optimizer=resumed) == seen
    for one, other in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_dropout_is_drawn_anew_in_each_step_and_the_same_for_a_seed():
    one, same, other = (new_model() for _ in range(3))
    losses = [[step.loss for step in run(plan, model, last=9)] for plan, model in ((PLAN, one), (PLAN, same))]
    assert losses[0] == losses[1]
    assert [step.loss for step in run(PLAN._replace(seed=1), other, last=9)] != losses[0]


def test_the_watch_surrounds_forward_backward_and_update():
    model = new_model()
    told = []

    @contextmanager
    def watch(step: int) -> Iterator[None]:
        before = model.head.weight.detach().clone()
        told.append(("in", step))
        yield
        moved = not torch.equal(before, model.head.weight)
        told.append((moved, model.head.weight.grad is not None))

    plan = PLAN._replace(steps=2)
    batches = make_batches(side(), plan.batch_size, plan.context, plan.seed)
    for step in steps(model, batches, build_optimizer(model, plan), plan, watch=watch):
        told.append(("out", step.step))
    assert told == [("in", 1), (True, True), ("out", 1), ("in", 2), (True, True), ("out", 2)]


def test_a_loss_that_is_no_number_stops_before_the_update():
    model = new_model()
    with torch.no_grad():
        model.blocks[1].feed_forward.expand.weight[3, 2] = math.nan
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(NotFinite) as error:
        run(PLAN, model)
    assert str(error.value) == (
        "loss became nan at step 1 in blocks.1.feed_forward.expand (learning rate 0.002); "
        "blocks.1.feed_forward.expand.weight held nan from the start. Try learning_rate=0.001."
    )
    assert (error.value.exit_code, error.value.layer) == (3, "blocks.1.feed_forward.expand")
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) or "expand" in name for name in before)


class Cliff(torch.autograd.Function):
    """Finite forward, nan on the way back."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * math.nan


def test_a_gradient_that_is_no_number_is_found_too():
    model = new_model()
    model.blocks[0].register_forward_hook(lambda module, came, out: Cliff.apply(out))
    with pytest.raises(
        NotFinite, match=r"a gradient became nan at step 1 in blocks\.0\.feed_forward\.contract"
    ) as error:
        run(PLAN, model)
    assert error.value.cause.startswith("no weight has grown much, the largest number is ")


def test_a_rate_far_too_high_says_so():
    plan = PLAN._replace(optimizer="sgd", learning_rate=1e30, clip=0.0, warmup=0, schedule="constant", steps=20)
    with pytest.raises(NotFinite, match=r"loss became (nan|inf) at step \d in [a-z0-9._]+ \(learning rate 1e\+30\)"):
        run(plan, new_model())


@pytest.mark.parametrize("learning_rate", [1e30, 1e13])
def test_the_update_that_made_a_weight_too_large_is_named(learning_rate):
    """Beside the same descent written out, with every weight looked at after every update."""
    plan = PLAN._replace(
        optimizer="sgd", learning_rate=learning_rate, momentum=0.0, weight_decay=0.0, clip=0.0, warmup=0
    )
    plan = plan._replace(schedule="constant", steps=200)
    still = dataclasses.replace(CONFIG, dropout=0.0)
    twin = new_model(still)
    batches = make_batches(side(), plan.batch_size, plan.context, plan.seed)
    sizes = {name: [float(one.detach().abs().max())] for name, one in twin.named_parameters()}
    for step in range(1, plan.steps + 1):
        twin.zero_grad()
        batch = batches.batch(step)
        loss = functional.cross_entropy(twin(batch.tokens).flatten(0, 1), batch.targets.flatten(), ignore_index=-100)
        loss.backward()
        norms = [one.grad.norm() for one in twin.parameters()]
        if not (loss.isfinite() and torch.stack(norms).norm().isfinite()):
            break
        with torch.no_grad():
            for name, one in twin.named_parameters():
                one -= learning_rate * one.grad
                sizes[name].append(float(one.abs().max()))
    with pytest.raises(NotFinite) as error:
        run(plan, new_model(still))
    assert error.value.step == step > 1
    # A weight that is used behind the layer that shows it has no part in it.
    before = {"blocks.0.norm": ("embedding",), "blocks.1.norm": ("embedding", "blocks.0")}.get(error.value.layer, ("",))
    sizes = {name: seen for name, seen in sizes.items() if name.startswith(before)}
    infinite = [name for name, seen in sizes.items() if not math.isfinite(seen[-1])]
    grown = {name: seen[-1] / max(seen[0], USUAL) for name, seen in sizes.items()}
    if infinite:
        assert f" {infinite[0]} " in f"{error.value.cause} "
    else:
        name = max(grown, key=grown.__getitem__)
        jumps = [after / max(before, USUAL) for before, after in itertools.pairwise(sizes[name])]
        at = max(range(len(jumps)), key=jumps.__getitem__)
        told = f"the update of step {at + 1} took {name} from {sizes[name][at]:.3g} to {sizes[name][at + 1]:.3g}"
        assert error.value.cause.startswith(told)


def test_sizes_are_kept_of_the_last_updates_and_of_the_start():
    weight, calm = torch.full((3,), 0.5), torch.ones(2)
    sizes = WeightSizes({"calm": calm, "weight": weight, "whole": torch.tensor([1, 2])})
    for step in range(1, 2 * KEPT):
        weight *= -1.1
        sizes.note(step)
        assert (sizes.find_growth() is None) == (1.1**step < 100)
    growth = sizes.find_growth()
    assert growth.name == "weight"
    # What was forgotten is no leap: all that are known went by the same factor, and the first of them is told.
    assert growth.step in range(KEPT + 1, 2 * KEPT)
    assert growth.after / growth.before == pytest.approx(1.1, rel=1e-5)
    calm[1] = -math.inf
    sizes.note(2 * KEPT)
    calm[0] = math.nan
    sizes.note(2 * KEPT + 1)
    assert sizes.find_growth()[:3] == ("calm", 2 * KEPT, 1.0)
    assert sizes.largest()[0] in ("calm", "weight")


def slow_loss(model: nn.Module, part: Corpus, context: int) -> tuple[float, int]:
    """Token by token: each row by itself, in float64."""
    tokens = part.tokens.astype(np.int64).tolist()
    if part.has_boundary:
        ends = [place for place, token in enumerate(tokens) if token == 0]
        rows = [tokens[a : b + 1] for a, b in itertools.pairwise(ends)]
    else:
        rows = [tokens[a : a + context + 1] for a in range(0, len(tokens) - 1, context)]
    total, n = 0.0, 0
    for row in rows:
        scores = model(torch.tensor([row[:-1]]))[0].double()
        for place, target in enumerate(row[1:]):
            total -= float(scores[place].log_softmax(-1)[target])
            n += 1
    return total / n, n


@pytest.mark.parametrize("most_tokens", [1, 7, 64, 4096])
@pytest.mark.parametrize("has_boundary", [True, False])
def test_evaluation_is_the_slow_loop(monkeypatch, most_tokens, has_boundary):
    monkeypatch.setattr("pellucid.training.tasks.sequences.MOST_TOKENS", most_tokens)
    draw = np.random.default_rng(1)
    part = side() if has_boundary else Corpus(draw.integers(0, 6, 107).astype(np.uint8), False)
    model = new_model()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    model.train()
    found = evaluate_loss(model, part, 10)
    assert model.training
    model.eval()
    with torch.no_grad():
        nats, n = slow_loss(model, part, 10)
    assert found.n_tokens == n == part.n_predicted
    assert found.nats == pytest.approx(nats, abs=1e-5)


def test_an_empty_side_has_no_loss():
    assert math.isnan(evaluate_loss(new_model(), Corpus(np.zeros(1, np.uint8), True), 10).nats)


def test_the_loss_passes_over_padding():
    scores = torch.zeros(1, 3, 4)
    scores[0, 2] = torch.tensor([9.0, 0, 0, 0])
    assert mean_token_loss(scores, torch.tensor([[1, 2, -100]])).item() == pytest.approx(math.log(4))
