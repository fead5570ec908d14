"""The programs of the museum run as their authors ran them, and the doctor's published score is that of the museum.

`make doctor-score` runs the doctor on all and writes docs/doctor-score.md; here every third of each kind is run.
"""

import math
import re
import warnings
from pathlib import Path

import pytest
import torch
from tests.at_length import some_of
from tests.broken.museum import BROKEN, HEALTHY, ROOMS

from pellucid.inspection.doctor import diagnose
from pellucid.inspection.rules import rules

pytestmark = pytest.mark.usefixtures("one_thread")

DO_NOT_RUN = {"longer_than_the_table"}  # their bug is that they stop
NOT_FOUND = {"tanh_before_cross_entropy"}  # as docs/doctor-score.md says
EVERY = 5
SAMPLE = [one for exhibits in ROOMS.values() for one in some_of(exhibits, EVERY) if one.name not in NOT_FOUND]
# Hugging Face's are slow to load: make doctor-score runs them.
LIGHT = [one for one in HEALTHY if not one.name.startswith("Hugging Face")]
PASSED = some_of(LIGHT, 8 * EVERY)
ROOT = Path(__file__).parents[2]
PATIENTS = Path(__file__).parent.parent / "contracts" / "rule_patients"


def test_there_are_enough_of_them_with_names_of_their_own():
    assert len({exhibit.name for exhibit in BROKEN}) == len(BROKEN) >= 60
    assert len({healthy.name for healthy in HEALTHY}) == len(HEALTHY) >= 40


def test_every_rule_that_is_expected_exists():
    known = {*rules(), "opening"}  # the doctor's own word where nothing goes through the model
    assert {rule for exhibit in BROKEN for rule in exhibit.expected} - known == set()


def test_every_rule_is_expected_of_some_program():
    """Of the museum, or of the patients that a rule was written with later."""
    expected = {rule for exhibit in BROKEN for rule in exhibit.expected}
    later = {name for name in set(rules()) - expected if not (PATIENTS / f"{name.replace('-', '_')}.py").exists()}
    assert later == set()
    assert len(expected) >= 43


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


@pytest.mark.parametrize("healthy", LIGHT, ids=lambda healthy: healthy.name)
def test_a_healthy_program_learns(healthy):
    """A few steps on its batch with its own optimizer bring the loss down, by a tenth or at least by 3 %."""
    patient = healthy.patient()
    if patient.loss is None:
        assert torch.isfinite(patient.outputs()).all()
        return
    losses = []
    torch.manual_seed(0)
    for _ in range(24):
        loss = patient.loss_of(patient.outputs())
        patient.optimizer.zero_grad()
        loss.backward()
        patient.optimizer.step()
        losses.append(loss.item())
        if losses[-1] < 0.9 * losses[0]:
            break
    assert all(map(math.isfinite, losses))
    assert losses[-1] < 0.97 * losses[0]


@pytest.mark.parametrize("exhibit", SAMPLE, ids=lambda exhibit: exhibit.name)
def test_the_doctor_finds_some_of_each_kind_of_bug(exhibit):
    assert exhibit.found_by(diagnose(exhibit.patient(), exhibit.expected))


@pytest.mark.parametrize("healthy", PASSED, ids=lambda healthy: healthy.name)
def test_the_doctor_calls_no_healthy_model_broken(healthy):
    assert [one for one in diagnose(healthy.patient()).findings if one.severity == "broken"] == []


def test_the_sample_has_some_of_every_kind():
    assert len(SAMPLE) + len(PASSED) >= 40
    assert {room for room, exhibits in ROOMS.items() if not set(exhibits) & set(SAMPLE)} == set()


def test_the_published_score_counts_what_is_in_the_museum():
    """What it counts beside the museum, and the README's sentence, are held by test_mutants.py."""
    page = (ROOT / "docs" / "doctor-score.md").read_text(encoding="utf-8")
    by_room = re.search(
        r"## By kind(: museum| of bug)\n(.*?)\n## ", page, flags=re.DOTALL
    )  # others have such names too
    assert by_room is not None
    text = page.partition("\n## ")[0] + by_room[2]
    rows = dict(re.findall(r"^\| ([\w ]+) \| (\d+)", text, flags=re.MULTILINE))
    assert rows["broken programs"] == str(len(BROKEN))
    assert rows["healthy programs"] == str(len(HEALTHY))
    assert rows["of them called broken"] == "0"
    assert {room: rows[room] for room in ROOMS} == {room: str(len(exhibits)) for room, exhibits in ROOMS.items()}
    missed = re.search(r"## Not found(: museum)?\n(.*?)\n## ", page, flags=re.DOTALL)
    assert missed is not None
    assert set(re.findall(r"^\| `(\w+)`", missed[2], flags=re.MULTILINE)) == NOT_FOUND
    assert rows["found"] == str(len(BROKEN) - len(NOT_FOUND))


@pytest.mark.parametrize("exhibits", ROOMS.values(), ids=ROOMS)
def test_a_program_is_the_same_at_every_call(exhibits):
    one, other = (exhibits[0].patient().model.state_dict() for _ in range(2))
    assert all(torch.equal(one[key], other[key]) for key in one)
