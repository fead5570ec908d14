"""The patient itself, and no copy that behaves better: hooks, own steps, nested targets, and what a fork leaves."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import pellucid
from pellucid.inspection.doctor import build_specimen, diagnose, specimen_from
from pellucid.inspection.instrument.copy_fidelity import copy_differs
from pellucid.inspection.instrument.forking import measure_in_fork
from pellucid.inspection.instrument.isolation import Snapshot, fixed_rng
from pellucid.inspection.instrument.nests import map_tensors, tensors_in
from pellucid.inspection.instrument.real_run import real_run
from pellucid.inspection.instrument.specimen import Specimen

pytestmark = pytest.mark.usefixtures("one_thread")


def network(optimizer: str = "SGD") -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        inputs, targets = torch.randn(32, 8), torch.randint(3, (32,))
    return Specimen(
        model, (inputs,), targets, nn.CrossEntropyLoss(), getattr(torch.optim, optimizer)(model.parameters(), lr=0.05)
    )


def severities(specimen: Specimen, rule: str) -> list[str]:
    return [one.severity for one in diagnose(specimen, [rule]).findings if one.rule == rule]


def test_a_real_run_is_the_loop_written_out():
    specimen = network()
    run = real_run(specimen, steps=4)
    model, losses = specimen.model, []
    before = {path: one.detach().clone() for path, one in model.named_parameters()}
    for _ in range(4):
        specimen.optimizer.zero_grad()
        loss = specimen.loss_of(model(*specimen.inputs))
        loss.backward()
        specimen.optimizer.step()
        losses.append(loss.item())
    assert run.losses == pytest.approx(losses, abs=1e-7)
    for path, one in model.named_parameters():
        far = ((one - before[path]).norm() / before[path].norm()).item()
        assert run.moved[path] == pytest.approx(far, rel=1e-4)
    assert run.n_updates == 4


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop", "Rprop", "Adagrad", "LBFGS"])
def test_a_real_run_leaves_nothing_behind(optimizer):
    specimen = network(optimizer)
    state = Snapshot(specimen)
    children = set(os.listdir("/proc/self/task"))
    assert real_run(specimen, steps=3).n_steps == 3
    assert state.restore() == []
    assert set(os.listdir("/proc/self/task")) <= children


def children() -> set[str]:
    """The processes that this one has started and not buried."""
    return {child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()}


def test_a_fork_that_hangs_is_ended_and_one_that_raises_says_nothing():
    model, before = nn.Linear(2, 1), children()
    assert measure_in_fork(model, lambda: __import__("time").sleep(60), seconds=0.5) is None
    assert measure_in_fork(model, lambda: 1 / 0) is None
    assert measure_in_fork(model, lambda: os._exit(3)) is None
    assert children() == before


def test_a_hook_that_changes_outputs_is_kept_in_copies():
    specimen = network()
    specimen.model[0].register_forward_hook(lambda module, given, out: out * 0)
    assert "outputs" in copy_differs(specimen)
    assert copy_differs(replace(specimen, keeps_hooks=True)) == ""
    found = diagnose(specimen, ["no-gradient", "detached-path"])
    assert any(one.severity in ("broken", "suspicious") for one in found.findings)


def test_a_hook_that_only_looks_is_not_called_by_probes():
    specimen, seen = network(), []
    specimen.model[0].register_forward_hook(lambda module, given, out: seen.append(1))
    diagnose(specimen, ["no-gradient", "future-leak", "wrong-mode"])
    # The opening pass and every probe run on copies; what a forked process saw stays there.
    assert seen == []


def test_a_hook_on_a_weight_is_seen():
    specimen = network()
    specimen.model[0].weight.register_hook(lambda slope: slope * 0)
    assert copy_differs(specimen) == ""
    assert severities(specimen, "detached-path") == ["broken"]


def test_what_no_copy_can_be_is_not_certified():
    class Closed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)
            weight = self.layer.weight
            self.function = lambda x: x @ (weight * 2).T

        def forward(self, x):
            return self.layer(x) + self.function(x)

    specimen = replace(network(), model=Closed(), optimizer=None)
    with torch.no_grad():
        faithful = diagnose(replace(specimen, model=nn.Linear(8, 3)), ["no-gradient"])
    found = diagnose(specimen, ["no-gradient"])
    # The copy's function holds on to the weight of the original: the gradient of the copy's own is another.
    assert [one.severity for one in found.findings if one.rule != "opening"][-1] != "sound"
    assert "a copy" in found.findings[0].seen or "copy" in found.findings[0].means
    assert [one.severity for one in faithful.findings] == ["sound"]


@dataclass
class Wanted:
    label: Tensor
    weight: Tensor


@pytest.mark.parametrize(
    ("nest", "pick"),
    [
        (lambda y: (y, torch.ones(32)), lambda t: t[0]),
        (lambda y: [y], lambda t: t[0]),
        (lambda y: {"label": y}, lambda t: t["label"]),
        (lambda y: Wanted(y, torch.ones(32)), lambda t: t.label),
    ],
    ids=["tuple", "list", "dictionary", "dataclass"],
)
def test_targets_may_be_nested(nest, pick):
    plain = network("Adam")
    found = pellucid.doctor(
        plain.model,
        (plain.inputs, nest(plain.targets)),
        lambda outputs, targets: nn.functional.cross_entropy(outputs, pick(targets)),
        plain.optimizer,
    )
    assert not found.is_ill
    assert "not known" not in str(found.rules)
    assert {"cannot-overfit", "still-weights"} <= {one.rule for one in found.findings if one.severity == "sound"}


def test_nests_are_changed_and_listed_in_order():
    nest = {"a": (torch.zeros(1), [torch.ones(2)]), "b": Wanted(torch.zeros(3), torch.ones(4)), "c": "text"}
    assert [len(one) for one in tensors_in(nest)] == [1, 2, 3, 4]
    changed = map_tensors(lambda one: one + 1, nest)
    assert [one.tolist() for one in tensors_in(changed)] == [[1.0], [2.0, 2.0], [1.0] * 3, [2.0] * 4]
    assert type(changed["b"]) is Wanted
    assert changed["c"] == "text"
    assert tensors_in(nest)[0].item() == 0


def own_step(order: str) -> Specimen:
    given = network()
    model, optimizer = given.model, given.optimizer

    def step():
        loss = None
        for word in order.split():
            if word == "clear":
                optimizer.zero_grad()
            elif word == "backward":
                loss = given.loss_of(model(*given.inputs))
                loss.backward()
            elif word == "update":
                optimizer.step()
            else:
                raise RuntimeError("no such word")
        return loss

    return build_specimen(model, (given.inputs, given.targets), step, optimizer)


@pytest.mark.parametrize(
    ("order", "severity", "said"),
    [
        ("clear backward update", "sound", "its own batch"),
        ("backward update clear", "sound", "its own batch"),
        ("backward update", "broken", "earlier batches"),
        ("backward clear update", "broken", "cleared after backward"),
        ("clear backward", "broken", "nothing is ever updated"),
        ("clear backward fly", "broken", "does not come past it"),
    ],
)
def test_a_step_of_ones_own(order, severity, said):
    specimen = own_step(order)
    assert specimen.step is not None
    assert specimen.loss is None
    found = [one for one in diagnose(specimen, ["own-step"]).findings if one.rule == "own-step"]
    assert found[0].severity == severity
    assert said in found[0].means


def test_a_patient_may_return_a_step_in_place_of_a_loss():
    specimen = own_step("clear backward update")
    step = specimen.step
    found = specimen_from(lambda: (specimen.model, specimen.inputs, specimen.targets, step, specimen.optimizer), "net")
    assert found.step is step
    assert found.loss is None


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_a_broadcast_is_seen_beside_targets_of_any_size(scale):
    with fixed_rng():
        model, inputs, targets = nn.Linear(4, 1), torch.randn(64, 4), scale * (3 + torch.randn(64))
    crossed = Specimen(model, (inputs,), targets, nn.functional.mse_loss)
    with pytest.warns(UserWarning, match="target size"):
        nn.functional.mse_loss(model(inputs), targets)
    assert severities(crossed, "target-broadcast") == ["broken"]
    assert severities(replace(crossed, targets=targets[:, None]), "target-broadcast") == ["sound"]


def test_what_torch_warns_of_is_shown_once_for_every_patient():
    specimen = network()
    crossed = replace(
        specimen, targets=torch.zeros(32), loss=lambda outputs, y: nn.functional.mse_loss(outputs[:, :1], y)
    )
    warned = [one for one in diagnose(crossed, ["no-gradient"]).findings if "torch warns" in one.seen]
    assert [one.severity for one in warned] == ["note"]
    assert "target size" in warned[0].seen
    assert not [one for one in diagnose(specimen, ["no-gradient"]).findings if "torch warns" in one.seen]


def recurrence(factor: float, rate: float) -> Specimen:
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.inside, self.head = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
            with torch.no_grad():
                self.inside.weight.mul_(factor)

        def forward(self, rows):
            hidden = torch.zeros(len(rows), 8)
            for step in range(rows.shape[1]):
                hidden = self.inside(hidden) + self.into(rows[:, step])
            return self.head(hidden)

    with fixed_rng():
        model, inputs = Cell(), torch.randn(16, 40, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    return Specimen(model, (inputs,), inputs.mean((1, 2))[:, None], nn.MSELoss(), optimizer)


@pytest.mark.slow
def test_a_recurrence_that_explodes_is_told_from_a_high_rate():
    found = [one for one in diagnose(recurrence(4.0, 1e-3), ["learning-rate"]).findings if one.rule == "learning-rate"]
    assert "no lower rate helps" in found[0].means
    assert "inside" in found[0].seen
    assert found[0].seen.count("the loss is no number") == 4  # at its own rate and at three lower ones
    high = [one for one in diagnose(recurrence(1.0, 30.0), ["learning-rate"]).findings if one.rule == "learning-rate"]
    assert "lower the rate to" in high[0].try_next
    assert "the loss fell by" in high[0].try_next
