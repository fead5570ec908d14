"""The programs of the museum run as their authors ran them, and the doctor finds one of every kind of bug."""

import math
import warnings

import pytest
import torch
from tests.broken.museum import BROKEN, HEALTHY, ROOMS

from pellucid.inspection.doctor import diagnose
from pellucid.inspection.rules import rules

pytestmark = pytest.mark.usefixtures("one_thread")

DO_NOT_RUN = {"longer_than_the_table"}  # their bug is that they stop
SAMPLE = [exhibits[0] for exhibits in ROOMS.values()]
# One of each kind; the catalogue's own are many, and Hugging Face's are slow to load.
PASSED = (
    "pellucid transformer",
    "torch decoder with dropout",
    "CNN with batch norm",
    "LSTM",
    "frozen backbone",
    "experts",
)


def test_there_are_enough_of_them_with_names_of_their_own():
    assert len({exhibit.name for exhibit in BROKEN}) == len(BROKEN) >= 60
    assert len({healthy.name for healthy in HEALTHY}) == len(HEALTHY) >= 40


def test_every_rule_that_is_expected_exists():
    known = {*rules(), "opening"}  # the doctor's own word where nothing goes through the model
    assert {rule for exhibit in BROKEN for rule in exhibit.expected} - known == set()


def test_every_rule_is_expected_of_some_program():
    expected = {rule for exhibit in BROKEN for rule in exhibit.expected}
    assert set(rules()) - expected == set()


@pytest.mark.parametrize("exhibit", BROKEN, ids=lambda exhibit: exhibit.name)
def test_a_broken_program_runs(exhibit):
    """Bugs that stop a program are found by everyone; these go on."""
    patient = exhibit.patient()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as their authors did
        if exhibit.name in DO_NOT_RUN:
            with pytest.raises(IndexError):
                patient.outputs()
            return
        outputs = patient.outputs()
        if patient.loss is not None:
            assert patient.loss_of(outputs).numel() == 1


@pytest.mark.parametrize("healthy", HEALTHY, ids=lambda healthy: healthy.name)
def test_a_healthy_program_learns(healthy):
    """A few steps on its batch with its own optimizer bring the loss down."""
    if healthy.name.startswith("Hugging Face"):
        pytest.skip("takes seconds to load; make doctor-score runs it")
    patient = healthy.patient()
    if patient.loss is None:
        assert torch.isfinite(patient.outputs()).all()
        return
    losses = []
    torch.manual_seed(0)
    for _ in range(12):
        loss = patient.loss_of(patient.outputs())
        patient.optimizer.zero_grad()
        loss.backward()
        patient.optimizer.step()
        losses.append(loss.item())
    assert all(map(math.isfinite, losses))
    assert losses[-1] < 0.97 * losses[0]


@pytest.mark.parametrize("exhibit", SAMPLE, ids=lambda exhibit: exhibit.name)
def test_the_doctor_finds_the_first_of_every_room(exhibit):
    assert exhibit.found_by(diagnose(exhibit.patient(), exhibit.expected))


@pytest.mark.parametrize("name", PASSED)
def test_the_doctor_calls_no_healthy_model_broken(name):
    healthy = next(healthy for healthy in HEALTHY if healthy.name == name)
    assert [one for one in diagnose(healthy.patient()).findings if one.severity == "broken"] == []


def test_a_program_is_the_same_at_every_call():
    for exhibit in SAMPLE:
        one, other = (exhibit.patient().model.state_dict() for _ in range(2))
        assert all(torch.equal(one[key], other[key]) for key in one)
