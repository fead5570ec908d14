"""A watch over a loop that someone wrote: what it sees, and that the loop is the same with it as without."""

import copy
import io
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import pellucid
from pellucid.errors import PellucidError
from pellucid.inspection.health import HealthProbe
from pellucid.inspection.judgements import judge_health
from pellucid.inspection.watch import EVERY, FIRST, MOST_LOOKS, Watch
from pellucid.models.catalogue import find_network
from pellucid.records import Watched, as_plain
from pellucid.records.plain import from_plain

TRANSFORMER = find_network("transformer", "list")


class Nested(nn.Module):
    """Blocks inside blocks, one activation for several widths, dropout and running averages."""

    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()
        self.below = nn.ModuleDict({"a": nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16))})
        self.middle = nn.Linear(16, 8)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        seen = self.act(self.below["a"](x))
        return {"logits": self.head(self.dropout(self.act(self.middle(seen)))), "hidden": seen}


def plain_network():
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def loop(model, optimizer, n_steps, seed=0):
    """What anyone would write; the losses of its steps."""
    draw = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(n_steps):
        x = torch.randn(32, 6, generator=draw)
        optimizer.zero_grad()
        out = model(x)
        loss = functional.cross_entropy(out["logits"] if isinstance(out, dict) else out, x[:, :3].argmax(1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def made(build, optimizer=torch.optim.Adam, rate=1e-2):
    torch.manual_seed(0)
    model = build()
    return model, optimizer(model.parameters(), lr=rate)


def hooks_of(model, optimizer):
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    found = [hook for module in model.modules() for kind in kinds for hook in getattr(module, kind).values()]
    found += [hook for p in model.parameters() for hook in (getattr(p, "_post_accumulate_grad_hooks", None) or {})]
    found += [*optimizer._optimizer_step_pre_hooks.values(), *optimizer._optimizer_step_post_hooks.values()]
    return found


@pytest.mark.parametrize("build", [plain_network, Nested])
@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad])
def test_the_loop_is_the_same_with_a_watch_as_without(build, optimizer):
    model, stepper = made(build, optimizer)
    without = loop(model, stepper, 2 * EVERY + 3)
    watched, stepper = made(build, optimizer)
    with pellucid.watch(watched, stepper):
        assert loop(watched, stepper, 2 * EVERY + 3) == without
    after = watched.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in model.state_dict().items())
    assert hooks_of(watched, stepper) == []


def test_looks_come_by_the_number_of_the_step_and_become_rarer():
    model, optimizer = made(lambda: nn.Sequential(nn.Linear(1, 1), nn.Tanh()), torch.optim.SGD)
    n_steps = EVERY * (MOST_LOOKS + 5)
    with Watch(model, optimizer) as watch:
        for _ in range(n_steps):
            optimizer.zero_grad()
            model(torch.ones(2, 1)).sum().backward()
            optimizer.step()
    assert watch.n_steps == n_steps == len(watch.norms)
    steps = [look.step for look in watch.health]
    assert len(steps) <= MOST_LOOKS
    assert steps == [*FIRST, *range(2 * EVERY, n_steps + 1, 2 * EVERY)]
    assert [bool(look.maps) for look in watch.health] == [True] + [False] * (len(steps) - 2) + [True]


def test_what_a_watch_sees_is_what_a_probe_around_the_step_sees():
    model, optimizer = made(plain_network)
    with Watch(model, optimizer) as watch:
        loop(model, optimizer, 2)
    model, optimizer = made(plain_network)
    probe = HealthProbe(model)
    with probe.watch(1, with_maps=True):
        loop(model, optimizer, 1)
    assert watch.health[0]._replace(maps=()) == probe.take_looks()[0]._replace(maps=())


def test_the_norm_of_all_gradients_is_told_for_every_step_as_the_optimizer_gets_it():
    model, optimizer = made(plain_network)
    norms = []
    with Watch(model, optimizer) as watch:
        for _ in range(3):
            loop_once = functional.cross_entropy(model(torch.randn(8, 6)), torch.arange(8) % 3)
            optimizer.zero_grad()
            loop_once.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            norms.append(math.sqrt(sum(p.grad.double().square().sum().item() for p in model.parameters())))
            optimizer.step()
    assert list(watch.norms) == pytest.approx(norms, rel=1e-5)
    # The looks have each parameter's before it was clipped.
    assert math.hypot(*[weight.gradient_norm for weight in watch.health[0].weights]) > 0.02
    assert list(watch.rates) == [1e-2] * 3


def test_one_activation_for_several_widths_is_a_layer_for_each():
    model, optimizer = made(Nested)
    with Watch(model, optimizer) as watch:
        loop(model, optimizer, 1)
    assert {(layer.path, layer.width) for layer in watch.health[0].layers if layer.kind == "ReLU"} == {
        ("act[0]", 16),
        ("act[1]", 8),
    }


def test_a_loop_that_raises_keeps_what_was_seen_and_leaves_no_hook():
    model, optimizer = made(plain_network)
    watch = pellucid.watch(model, optimizer)

    def failing():
        with watch:
            loop(model, optimizer, 4)
            model(torch.randn(4, 6)).sum().backward()  # the step of the third look, which never ends
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert [look.step for look in watch.health] == [1, 2]
    assert hooks_of(model, optimizer) == []
    loop(model, optimizer, 3)
    assert len(watch.health) == 2


def test_copies_of_a_watched_model_hear_nothing():
    model, optimizer = made(plain_network)
    with Watch(model, optimizer) as watch:  # a look is open before the first step
        copied = copy.deepcopy(model)
        stored = io.BytesIO()
        torch.save(model, stored)
        stored.seek(0)
        loaded = torch.load(stored, weights_only=False)
        for one in (copied, loaded):
            for _ in range(3):
                one(torch.randn(8, 6)).sum().backward()
        loop(model, optimizer, 1)
    assert [layer.examples for layer in watch.health[0].layers] == [32] * 3


def test_half_precision_sparse_gradients_and_empty_outputs_do_not_stop_a_loop():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(11, 8, sparse=True)
            self.nothing = nn.Identity()
            self.none = nn.Linear(8, 2)
            self.head = nn.Linear(8, 11, dtype=torch.bfloat16)
            self.act = nn.Tanh()

        def forward(self, tokens):
            seen = self.table(tokens)
            self.none(seen[:0])
            return self.act(self.head(seen.bfloat16()))

    torch.manual_seed(0)
    model = Odd()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Watch(model, optimizer) as watch:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.arange(11)).float().square().mean().backward()
            optimizer.step()
    assert {layer.path for layer in watch.health[0].layers} == {"table", "head", "act"}
    assert next(w.gradient_norm for w in watch.health[0].weights if w.path == "table.weight") > 0


def test_what_is_saturated_is_found_and_what_is_well_is_not():
    def found(scale):
        model, optimizer = made(plain_network)
        with torch.no_grad():
            model[0].weight.mul_(scale)
        with pellucid.watch(model, optimizer) as watch:
            loop(model, optimizer, 5)
        return {(finding.severity, finding.rule) for finding in watch.findings()}

    assert ("suspicious", "saturated") in found(100.0)
    assert {severity for severity, _ in found(1.0)} == {"sound"}


def test_a_loop_whose_numbers_are_lost_is_broken_at_that_step():
    model, optimizer = made(plain_network, torch.optim.SGD, rate=0.1)
    with pellucid.watch(model, optimizer) as watch:
        loop(model, optimizer, 6)
        with torch.no_grad():
            model[2].weight[0, 0] = math.inf
        loop(model, optimizer, 2)
    first = watch.findings()[0]
    assert (first.severity, first.rule, first.step) == ("broken", "not-finite", 7)
    assert "nan" in first.seen
    assert first.seen.endswith("no update made a weight much larger, and the largest number was inf in 2.weight")
    assert all(finding.step < 7 for finding in watch.findings()[1:])


def test_the_update_after_which_numbers_are_lost_is_named():
    """Each step of a line's descent multiplies its distance from the goal by the same number, here about -1e13."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=5e12)
    sizes = [1.0]
    with Watch(model, optimizer) as watch:
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.ones(2, 1)).square().mean().backward()
            optimizer.step()
            sizes.append(model.weight.abs().item())
    finding = watch.findings()[0]
    lost = next(step for step, size in enumerate(sizes) if not math.isfinite(size))
    assert finding.rule == "not-finite"
    assert f"the update of step {lost} took weight from {sizes[lost - 1]:.3g} to inf" in finding.seen


def test_a_watch_says_broken_of_nothing_it_did_not_prove():
    """A branch that starts at zero gets no gradient below it: on purpose, as in many residual networks."""

    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.below = nn.Linear(6, 6)
            self.gate = nn.Parameter(torch.zeros(()))
            self.head = nn.Linear(6, 3)

        def forward(self, x):
            return self.head(x + self.gate * self.below(x))

    model, optimizer = made(Gated)
    with Watch(model, optimizer) as watch:
        loop(model, optimizer, 1)
    assert "broken" in {finding.severity for finding in judge_health(watch.health)}
    assert "broken" not in {finding.severity for finding in watch.findings()}


def test_evaluations_and_accumulation_are_no_steps_of_their_own():
    model, optimizer = made(plain_network)
    with Watch(model, optimizer) as watch:
        for _ in range(2):
            for _ in range(3):
                model(torch.randn(8, 6)).square().mean().backward()
            with torch.no_grad():
                model(torch.randn(500, 6))
            optimizer.step()
            optimizer.zero_grad()
    assert watch.n_steps == 2
    assert {layer.examples for layer in watch.health[0].layers} == {24}


def test_part_of_a_model_and_two_watches_at_once():
    torch.manual_seed(0)
    model = nn.Sequential(plain_network(), nn.Tanh(), nn.Linear(3, 3))
    optimizer = torch.optim.Adam(model.parameters())
    with Watch(model[0], optimizer) as part, Watch(model, optimizer) as whole:
        loop(model, optimizer, 2)
    assert [layer.path for layer in part.health[0].layers] == ["0", "1", "2"]
    # The last of the part puts out the very tensor of the part.
    assert [layer.path for layer in whole.health[0].layers] == ["0", "0.0", "0.1", "1", "2"]
    assert hooks_of(model, optimizer) == []


def test_a_transformer_is_watched():
    torch.manual_seed(0)
    model = TRANSFORMER.build(TRANSFORMER.tiny)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(11, (8, 17))
    with pellucid.watch(model, optimizer) as watch:
        for _ in range(2):
            optimizer.zero_grad()
            functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimizer.step()
    assert {"broken"} & {finding.severity for finding in watch.findings()} == set()
    assert len(watch.health[0].weights) == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("model", "optimizer", "says"),
    [
        (nn.Linear(2, 2), lambda m: [torch.optim.SGD(m.parameters()), torch.optim.SGD(m.parameters())], "2 optimizers"),
        (nn.Linear(2, 2), lambda m: torch.optim.SGD(nn.Linear(2, 2).parameters()), "none of the model's parameters"),
        (nn.Linear(2, 2), lambda m: "adam", "the optimizer is a str"),
        ("model", lambda m: None, "the model is a str"),
        (
            nn.LazyLinear(2),
            lambda m: torch.optim.SGD(m.parameters()),
            "LazyLinear itself is lazy and needs an input shape",
        ),
    ],
)
def test_what_cannot_be_watched_is_refused(model, optimizer, says):
    with pytest.raises(PellucidError, match=says):
        pellucid.watch(model, optimizer(model))


def test_a_watch_is_entered_once():
    model, optimizer = made(plain_network)
    with Watch(model, optimizer) as watch, pytest.raises(PellucidError, match="already"):
        watch.__enter__()
    assert hooks_of(model, optimizer) == []


def test_the_report_prints_itself_is_stored_and_is_drawn(tmp_path):
    model, optimizer = made(plain_network)
    with pellucid.watch(model, optimizer) as watch:
        loop(model, optimizer, 6)
    words = repr(watch)
    assert words.startswith("Sequential: 6 steps, 3 looks")
    assert "✓ update-ratio at step 5: updates were" in words
    assert "Layers at step 5" in words
    report = watch.report().record
    again = from_plain(Watched, as_plain(report))
    assert repr(again) == repr(report)  # not by ==: losses are nan
    for figure in ("layer-histograms", "update-ratios", "gradient-norms", "unit-maps"):
        assert watch.draw(figure, tmp_path / f"{figure}.svg").read_text().startswith("<svg")
    with pytest.raises(PellucidError, match="Perhaps you meant update-ratios"):
        watch.draw("update-ratio", tmp_path / "a.svg")
    with pytest.raises(PellucidError, match="does not end in"):
        watch.draw("update-ratios", tmp_path / "a.txt")


def test_a_watch_that_saw_nothing_says_so():
    model, optimizer = made(plain_network)
    with pellucid.watch(model, optimizer) as watch:
        pass
    assert watch.findings() == []
    assert repr(watch) == "Sequential: 0 steps, 0 looks"


def watched_loop(clears=True, puts_back=False, momentum=0.1, n_steps=70, accumulates=1, shift=0.0):
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(16, momentum=momentum)
    model = nn.Sequential(nn.Linear(8, 16), norm, nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    kept = model[3].weight.detach().clone()
    with pellucid.watch(model, optimizer) as watch:
        for step in range(n_steps):
            if clears:
                optimizer.zero_grad()
            for _ in range(accumulates):
                inputs, targets = torch.randn(32, 8) * (1 + shift) ** step, torch.randint(3, (32,))
                nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            if puts_back:
                model[3].weight.data.copy_(kept)
    return {(finding.severity, finding.rule): finding for finding in watch.findings()}


def test_a_loop_that_clears_its_gradients_is_sound_also_where_it_accumulates():
    for accumulates in (1, 3):
        found = watched_loop(accumulates=accumulates)
        assert ("sound", "own-step") in found
        assert ("sound", "still-weights") in found
        assert ("sound", "eval-unlike-training") in found


def test_a_loop_without_zero_grad_is_seen():
    found = watched_loop(clears=False)[("broken", "own-step")]
    assert "zero_grad" in found.try_next


def test_gradients_of_another_loss_that_are_cleared_in_time_are_not_old():
    torch.manual_seed(0)
    judge, maker = nn.Linear(4, 1), nn.Linear(2, 4)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.01) for one in (judge, maker)]
    with pellucid.watch(judge, optimizers[0]) as watch:
        for _ in range(30):
            made = maker(torch.randn(8, 2))
            optimizers[0].zero_grad()
            (judge(made.detach()).mean() - judge(torch.randn(8, 4)).mean()).backward()
            optimizers[0].step()
            optimizers[1].zero_grad()
            (-judge(made).mean()).backward()  # adds to the gradients of the judge, too
            optimizers[1].step()
    assert "broken" not in {finding.severity for finding in watch.findings()}


def test_weights_that_stopped_moving_are_seen():
    # Put back after every update: before the look ends where the optimizer does it, as here.
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.0}], lr=0.1
    )
    with pellucid.watch(model, optimizer) as watch:
        for _ in range(45):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(torch.randn(32, 8)), torch.randint(3, (32,))).backward()
            optimizer.step()
    [found] = [one for one in watch.findings() if one.rule == "still-weights"]
    assert found.severity == "suspicious"
    assert "2 of 4 parameters" in found.seen


def test_statistics_that_never_move_or_run_away_are_seen():
    assert "did not move" in watched_loop(momentum=0.0)[("suspicious", "eval-unlike-training")].seen
    assert "went from" in watched_loop(shift=0.15)[("suspicious", "eval-unlike-training")].seen
