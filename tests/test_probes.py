"""What the doctor's probes are made of, held to formulas, to torch and to modules whose answer is known."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import isolate
from pellucid.inspection.instrument.loss_view import LossView, causal_input, loss_view, shift_agreement
from pellucid.inspection.instrument.nests import main_tensor, with_main_tensor
from pellucid.inspection.instrument.perturbation import change_input, largest_change
from pellucid.inspection.instrument.recording import first_meeting, output_part
from pellucid.inspection.instrument.short_run import (
    copy_in_training,
    objective_gradients,
    overfit_allowance,
    overfit_run,
    trainable_parameters,
)
from pellucid.inspection.instrument.specimen import Specimen, is_fresh, run_module, steps_taken, was_trained
from pellucid.inspection.rules.detached_path import NudgedWeights, directions_of, measured_slope

ROWS, CLASSES = 12, 5


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def patient_with(loss, targets: Tensor, *last: nn.Module, outputs: int = CLASSES) -> Specimen:
    return Specimen(nn.Sequential(nn.Linear(4, outputs), *last), (torch.randn(ROWS, 4),), targets, loss)


def viewed(*arguments, **options) -> LossView:
    view = loss_view(patient_with(*arguments, **options))
    assert view is not None
    return view


LABELS = torch.tensor([0, 1, 2, 3, 4, 0, 0, 1, 2, 0, 0, 4])
NUMBERS = torch.linspace(-2, 3, ROWS)[:, None]
YES = (torch.arange(ROWS) % 3 == 0).float()[:, None]


@pytest.mark.parametrize(
    ("kind", "loss", "targets", "last", "outputs"),
    [
        ("cross-entropy", nn.CrossEntropyLoss(), LABELS, (), CLASSES),
        ("cross-entropy", nn.CrossEntropyLoss(label_smoothing=0.1), LABELS, (), CLASSES),
        ("cross-entropy", nn.CrossEntropyLoss(weight=torch.rand(CLASSES)), LABELS, (), CLASSES),
        ("cross-entropy", nn.CrossEntropyLoss(reduction="sum"), LABELS, (), CLASSES),
        ("cross-entropy", nn.CrossEntropyLoss(ignore_index=0), LABELS, (), CLASSES),
        ("cross-entropy", nn.CrossEntropyLoss(), functional.one_hot(LABELS).float(), (), CLASSES),
        ("log-likelihood", nn.NLLLoss(), LABELS, (nn.LogSoftmax(-1),), CLASSES),
        ("probabilities", nn.BCELoss(), YES, (nn.Sigmoid(),), 1),
        ("other", nn.BCEWithLogitsLoss(), YES, (), 1),
        ("other", nn.MSELoss(), NUMBERS, (), 1),
        ("other", nn.L1Loss(), NUMBERS, (), 1),
        ("other", nn.MultiMarginLoss(), LABELS, (), CLASSES),  # does not care for a shift either, and is no softmax
    ],
)
def test_a_loss_is_known_by_what_it_does(kind, loss, targets, last, outputs):
    assert viewed(loss, targets, *last, outputs=outputs).kind == kind


@pytest.mark.parametrize("axis", [1, 2])
def test_the_axis_of_the_classes_is_found(axis):
    targets = torch.randint(0, CLASSES, (ROWS, 3))

    def loss(scores: Tensor, wanted: Tensor) -> Tensor:
        return functional.cross_entropy(scores.movedim(axis, 1), wanted)

    shape = (CLASSES, 3) if axis == 1 else (3, CLASSES)
    model = nn.Sequential(nn.Linear(4, 3 * CLASSES), nn.Unflatten(1, shape))
    view = loss_view(Specimen(model, (torch.randn(ROWS, 4),), targets, loss))
    assert view is not None
    assert view.axis == axis - 3
    assert torch.equal(view.wanted_classes(), targets)


def test_what_is_asked_for_is_read_off_the_slope():
    assert torch.equal(viewed(nn.CrossEntropyLoss(), LABELS).wanted_classes(), LABELS)
    assert torch.equal(viewed(nn.NLLLoss(), LABELS, nn.LogSoftmax(-1)).wanted_classes(), LABELS)
    left_out = viewed(nn.CrossEntropyLoss(ignore_index=0), LABELS).wanted_classes()
    assert torch.equal(left_out, torch.where(LABELS == 0, -1, LABELS))
    shifted = viewed(lambda scores, labels: functional.cross_entropy(scores[:-1], labels[1:]), LABELS).wanted_classes()
    assert shifted.tolist() == [*LABELS[1:].tolist(), -1]


def test_the_best_constant_is_the_entropy_of_labels_or_the_variance_of_numbers():
    shares = torch.bincount(LABELS) / ROWS
    entropy = float(-(shares * shares.log()).sum())
    assert viewed(nn.CrossEntropyLoss(), LABELS).best_constant() == pytest.approx(entropy, abs=1e-4)
    assert viewed(nn.NLLLoss(), LABELS, nn.LogSoftmax(-1)).best_constant() == pytest.approx(entropy, abs=1e-4)
    share = float(YES.mean())
    of_yes = -share * math.log(share) - (1 - share) * math.log(1 - share)
    assert viewed(nn.BCELoss(), YES, nn.Sigmoid(), outputs=1).best_constant() == pytest.approx(of_yes, abs=1e-4)
    assert viewed(nn.BCEWithLogitsLoss(), YES, outputs=1).best_constant() == pytest.approx(of_yes, abs=1e-4)
    variance = float(NUMBERS.var(correction=0))
    assert viewed(nn.MSELoss(), NUMBERS, outputs=1).best_constant() == pytest.approx(variance, rel=1e-4)
    assert viewed(nn.MSELoss(), 1e5 * NUMBERS, outputs=1).best_constant() == pytest.approx(1e10 * variance, rel=1e-3)


def test_the_floor_of_smoothed_labels_is_their_entropy():
    smoothing = 0.1
    right, wrong = 1 - smoothing + smoothing / CLASSES, smoothing / CLASSES
    entropy = -right * math.log(right) - (CLASSES - 1) * wrong * math.log(wrong)
    view = viewed(nn.CrossEntropyLoss(label_smoothing=smoothing), LABELS)
    assert view.floor() == pytest.approx(entropy, abs=1e-3)
    assert viewed(nn.CrossEntropyLoss(), LABELS).floor() == pytest.approx(0, abs=1e-3)
    assert math.isnan(viewed(lambda scores, _: scores.mean(), LABELS).floor())  # it has none


@pytest.mark.parametrize(
    "outputs",
    [
        torch.zeros(2),
        (torch.zeros(2), "state"),
        [torch.zeros(2)],
        {"hidden": 3, "logits": torch.zeros(2)},
        {"deep": (torch.zeros(2), None)},
    ],
    ids=repr,
)
def test_the_main_tensor_can_be_put_back(outputs):
    changed = with_main_tensor(outputs, torch.ones(2))
    assert torch.equal(main_tensor(changed), torch.ones(2))
    assert torch.equal(main_tensor(outputs), torch.zeros(2))  # and what was given is as it was


def test_changed_inputs_differ_everywhere_and_hold_known_numbers():
    tokens = torch.tensor([[3, 5, 3, 9], [9, 9, 5, 3]])
    (changed,) = change_input((tokens,), 0, (slice(None), slice(2, None)))
    assert torch.equal(changed[:, :2], tokens[:, :2])
    assert (changed[:, 2:] != tokens[:, 2:]).all()
    assert set(changed.flatten().tolist()) <= {3, 5, 9}
    assert change_input((torch.ones(3, 2),), 0, (0,)) is None  # nothing else is known to be allowed


def test_what_has_moved():
    nan, inf = math.nan, math.inf
    assert largest_change(torch.tensor([1.0, nan, inf]), torch.tensor([1.0, nan, inf])) == 0
    assert largest_change(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])) == 0.5
    assert largest_change(torch.tensor([1.0]), torch.tensor([nan])) == inf
    assert largest_change(torch.ones(2), torch.ones(3)) == inf
    assert largest_change(torch.ones(0), torch.ones(0)) == 0


def test_the_last_part_makes_the_output():
    assert output_part(Specimen(nn.Sequential(nn.Linear(2, 2), nn.Softmax(-1)), (torch.ones(1, 2),))) == "1"

    class Between(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, rows: Tensor) -> Tensor:
            return self.linear(rows).softmax(-1)

    assert output_part(Specimen(Between(), (torch.ones(1, 2),))) == "the model"


class Crossing(nn.Module):
    """Rows meet in a part of a part, or between two of them."""

    def __init__(self, is_in_part: bool) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.middle = nn.Sequential(nn.Tanh(), nn.Softmax(dim=0 if is_in_part else 1))
        self.last = nn.Linear(3, 3)
        self.is_in_part = is_in_part

    def forward(self, rows: Tensor) -> Tensor:
        read = self.middle(self.first(rows))
        return self.last(read if self.is_in_part else read - read.mean(0))


@pytest.mark.parametrize(("is_in_part", "path"), [(True, "middle.1"), (False, "the model")])
def test_where_rows_meet_is_named(is_in_part, path):
    rows = torch.randn(4, 3)
    changed = torch.cat([rows[:1] + 1, rows[1:]])
    meeting = first_meeting(Crossing(is_in_part), (rows,), (changed,), lambda tensor: tensor[1:])
    assert meeting is not None
    assert meeting.path == path


def test_nudges_feel_what_autograd_says():
    model = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, CLASSES))
    patient = copy_in_training(Specimen(model, (torch.randn(ROWS, 4),), LABELS, nn.CrossEntropyLoss())).double()
    parameters = trainable_parameters(patient.model)
    slopes = objective_gradients(patient, parameters)
    assert slopes.keys() == parameters.keys()
    for path, one in parameters.items():
        parts = {path: NudgedWeights(one, torch.ones_like(one), False)}
        ((_, way),) = directions_of(parts)
        assert measured_slope(patient, parts) == pytest.approx(float((slopes[path] * way).sum()), rel=1e-4)


def test_a_kink_is_no_slope():
    class Kink(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, rows: Tensor) -> Tensor:
            return rows * self.weight.relu()

    patient = Specimen(Kink(), (torch.ones(3, 1),)).double()
    (weight,) = patient.model.parameters()
    assert measured_slope(patient, {"weight": NudgedWeights(weight, torch.ones_like(weight), False)}) == 0


def test_trained_weights_are_told_from_fresh_ones():
    for make in (lambda: nn.Linear(8, 8), lambda: nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))):
        model = make()
        patient = Specimen(model, (torch.randn(20, model.weight.shape[1] if isinstance(model, nn.Linear) else 2),))
        assert is_fresh(patient)
        assert not was_trained(patient)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(20):
            optimizer.zero_grad()
            model(*patient.inputs).pow(3).mean().backward()
            optimizer.step()
        with_memory = Specimen(model, patient.inputs, optimizer=optimizer)
        assert steps_taken(optimizer) == 20
        assert is_fresh(with_memory) is False
        assert was_trained(with_memory)
        assert is_fresh(patient) is not True  # also without the optimizer, by the weights themselves


def test_the_sequence_that_must_not_be_seen_ahead():
    tokens = torch.randint(0, 9, (4, 7))
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))

    def loss(scores: Tensor, wanted: Tensor) -> Tensor:
        return functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())

    assert shift_agreement(tokens[:, :-1], tokens[:, 1:], by=1) == 1
    assert causal_input(Specimen(model, (tokens[:, :-1],), tokens[:, 1:], loss)) == 0
    assert causal_input(Specimen(model, (tokens,), tokens, loss)) is None  # to copy is no reason to be causal
    assert causal_input(Specimen(model, (tokens,), is_causal=True)) == 0
    assert causal_input(Specimen(model, (tokens,), is_causal=False)) is None


def test_a_short_training_learns_and_leaves_the_patient_alone():
    patient = patient_with(nn.CrossEntropyLoss(), LABELS, nn.ReLU(), nn.Linear(CLASSES, CLASSES))
    before = [parameter.detach().clone() for parameter in patient.model.parameters()]
    allowed = overfit_allowance(patient)
    assert allowed is not None
    reached = overfit_run(patient, 0.05, 120, enough=0.3)
    assert reached is not None
    assert min(reached.losses) < reached.losses[0] / 2
    assert all(map(torch.equal, before, patient.model.parameters()))


def test_large_work_is_done_on_fewer_rows_or_not_at_all():
    wide = nn.Linear(2000, 2000)
    on_fewer = overfit_allowance(Specimen(wide, (torch.randn(64, 2000),), torch.randn(64, 2000), nn.MSELoss()))
    assert on_fewer is not None
    assert 4 <= on_fewer.specimen.n_rows < 64
    deep = nn.Sequential(*(nn.Linear(2000, 2000) for _ in range(12)))
    assert overfit_allowance(Specimen(deep, (torch.randn(8, 2000),), torch.randn(8, 2000), nn.MSELoss())) is None


def test_probing_brings_its_own_dice():
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    with isolate(1):
        first = torch.randn(3)
    assert torch.equal(torch.randn(3), expected)
    with isolate(1):
        assert torch.equal(torch.randn(3), first)


def test_an_answer_is_given_without_touching_the_input():
    rows = torch.randn(3, 2)
    before = rows.clone()
    assert torch.equal(run_module(nn.ReLU(inplace=True), (rows,)), before.relu())
    assert torch.equal(rows, before)


class LearnsItsFirstState(nn.Module):
    """The state that a recurrence begins with is a weight, the same for every row."""

    def __init__(self):
        super().__init__()
        self.cell, self.first = nn.GRUCell(3, 4), nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return self.cell(x, self.first.expand(len(x), -1))


def test_the_work_of_a_cell_whose_first_state_is_learned_is_counted():
    patient = Specimen(LearnsItsFirstState(), (torch.randn(8, 3),), torch.randn(8, 4), nn.MSELoss())
    allowed = overfit_allowance(patient)
    assert allowed is not None
    assert allowed.steps > 0
    assert all(weight.requires_grad for weight in patient.model.parameters())
