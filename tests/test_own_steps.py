"""Steps of training that people write themselves: what backward gives beside what an update is made of."""

import copy

import pytest
import torch
from torch import nn

from pellucid.inspection.doctor import build_specimen, diagnose
from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.real_run import real_run
from pellucid.inspection.instrument.update_record import Settings, UpdateRecorder

pytestmark = pytest.mark.usefixtures("one_thread")


class Loop:
    """A small network with everything that a step needs; each method is a step that someone could have written."""

    def __init__(self):
        with fixed_rng():
            self.body, self.head = nn.Linear(6, 12), nn.Linear(12, 3)
            self.model = nn.Sequential(self.body, nn.Tanh(), self.head)
            self.parts = [(torch.randn(8, 6), torch.randint(3, (8,))) for _ in range(4)]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.kept = copy.deepcopy(self.model)
        self.hidden = torch.zeros(12)

    def loss(self, which=0):
        inputs, targets = self.parts[which]
        return nn.functional.cross_entropy(self.model(inputs), targets)

    def usual(self):
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def accumulated(self, share=4.0, clears_each=False):
        total = 0.0
        self.optimizer.zero_grad()
        for which in range(4):
            if clears_each:
                self.optimizer.zero_grad()
            loss = self.loss(which)
            (loss / share).backward()
            total += loss.item()
        self.optimizer.step()
        return total / 4

    def accumulated_without_division(self):
        return self.accumulated(share=1.0)

    def only_the_last_counts(self):
        return self.accumulated(clears_each=True)

    def update_before_backward(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        return loss.item()

    def update_between_forward_and_backward(self):
        loss = self.loss()
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss.backward()
        return loss.item()

    def loss_as_a_number(self):
        self.optimizer.zero_grad()
        loss = torch.tensor(self.loss().item(), requires_grad=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def another_loss_is_made_smaller(self):
        self.usual()
        inputs, targets = self.parts[1]
        return nn.functional.cross_entropy(self.kept(inputs), targets).item()

    def hidden_state_with_its_graph(self):
        self.optimizer.zero_grad()
        inputs, targets = self.parts[0]
        self.hidden = torch.tanh(self.body(inputs).mean(0) + self.hidden)
        loss = nn.functional.cross_entropy(self.head(self.hidden.expand(8, -1)), targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def diagnosed(step, name="own-step", make=Loop):
    loop = make()
    specimen = build_specimen(loop.model, loop.parts[0], getattr(loop, step), loop.optimizer)
    return [one for one in diagnose(specimen, [name]).findings if one.rule == name]


@pytest.mark.parametrize("step", ["usual", "accumulated"])
def test_what_is_right_is_sound(step):
    found = diagnosed(step)
    assert {one.severity for one in found} == {"sound"}
    assert any("makes smaller" in one.means for one in found)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("accumulated_without_division", "4 times too far"),
        ("only_the_last_counts", "cleared and lost"),
        ("update_before_backward", "the batch before"),
        ("update_between_forward_and_backward", "changed in place after the forward pass"),
        ("loss_as_a_number", "no backward pass comes to the weights"),
        ("another_loss_is_made_smaller", "is not what it makes smaller"),
        ("hidden_state_with_its_graph", "used again with its graph"),
    ],
)
def test_what_is_wrong_is_told(step, said):
    found = [one for one in diagnosed(step) if one.severity in ("broken", "suspicious")]
    assert any(said in one.means for one in found), [one.means for one in found]


def test_a_graph_that_grows_is_seen():
    class Growing(Loop):
        def __init__(self):
            super().__init__()
            self.scale, self.carried = torch.ones(6, requires_grad=True), torch.zeros(6)

        def step(self):
            self.optimizer.zero_grad()
            inputs, targets = self.parts[0]
            self.carried = 0.5 * self.carried + self.scale * inputs.mean(0)
            loss = nn.functional.cross_entropy(self.model(inputs + self.carried), targets)
            loss.backward(retain_graph=True)
            self.optimizer.step()
            return loss.item()

    found = diagnosed("step", make=Growing)
    assert any("kept and gone through again" in one.means for one in found), found


def test_a_second_optimizer_that_never_steps_is_seen():
    class Two(Loop):
        def __init__(self):
            super().__init__()
            self.optimizer = torch.optim.SGD(self.body.parameters(), lr=0.1)
            self.second = torch.optim.SGD(self.head.parameters(), lr=0.1)

        def usual_with_both(self):
            self.second.zero_grad()
            loss = self.usual()
            self.second.step()
            return loss

    [found] = [one for one in diagnosed("usual", "still-weights", Two) if one.severity == "broken"]
    assert "made no step" in found.seen
    assert {one.severity for one in diagnosed("usual_with_both", "still-weights", Two)} == {"sound"}


def test_a_recorder_has_the_sums_that_are_written_out():
    loop = Loop()
    gradients = []
    for which in range(2):
        gradients.append(
            torch.cat([one.flatten() for one in torch.autograd.grad(loop.loss(which), loop.model.parameters())])
        )
    recorder = UpdateRecorder(loop.model)
    recorder.begin()
    for which in range(2):
        loop.loss(which).backward()
    torch.nn.utils.clip_grad_norm_(loop.model.parameters(), 0.01)
    loop.optimizer.step()
    recorder.end()
    [update] = recorder.made
    whole = gradients[0] + gradients[1]
    assert update.n_backward == 2
    assert update.came == pytest.approx(whole.norm().item(), rel=1e-5)
    assert update.given == pytest.approx(0.01, rel=1e-3)
    assert update.with_sum == pytest.approx(1.0, abs=1e-6)
    cosine = nn.functional.cosine_similarity(whole, gradients[1], dim=0).item()
    assert update.with_last == pytest.approx(cosine, abs=1e-5)
    assert not any(one._backward_hooks for one in loop.model.parameters())


def test_a_rate_that_is_tried_is_that_of_the_update_and_the_schedule_goes_on():
    loop = Loop()
    schedule = torch.optim.lr_scheduler.ExponentialLR(loop.optimizer, 0.5)

    def step():
        loss = loop.usual()
        schedule.step()
        return loss

    specimen = build_specimen(loop.model, loop.parts[0], step, loop.optimizer)
    run = real_run(specimen, 3)
    assert [one.rates for one in run.updates] == [(0.1,), (0.05,), (0.025,)]
    tenfold = real_run(specimen, 3, settings=Settings(factor=10.0))
    assert [one.rates for one in tenfold.updates] == [(0.1,), (0.05,), (0.025,)]
    # Plain descent: the first step goes ten times as far.
    far = {path: run.ratios[path][0] for path in ("0.weight", "2.weight")}
    assert {path: tenfold.ratios[path][0] for path in far} == pytest.approx(
        {path: 10 * one for path, one in far.items()}, rel=1e-3
    )
    assert loop.optimizer.param_groups[0]["lr"] == 0.1
