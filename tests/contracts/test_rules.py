"""What every rule of the doctor promises, tried on every card that the room carries."""

import functools
import importlib
import pkgutil
import random
import re
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import tests.contracts.rule_patients
import torch
from torch import Tensor, nn

import pellucid.inspection.rules
from pellucid.inspection.doctor import diagnose
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.rules import DoctorRule, rules
from pellucid.records import SEVERITIES, Finding

pytestmark = pytest.mark.usefixtures("one_thread")

RULES = rules()
ILL = ("broken", "suspicious")
SLIGHT = {"bias-before-norm"}  # it proves a waste that does no harm: a note is all it gives
HOOKS = [
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_forward_hooks_with_kwargs", "_state_dict_hooks", "_load_state_dict_pre_hooks"),
]


@pytest.fixture(params=RULES)
def rule(request: pytest.FixtureRequest) -> DoctorRule:
    return RULES[request.param]


def patient_of(rule: DoctorRule, state: str) -> Specimen:
    """The patient that the rule must find, "sick", or pass, "well"; each rule has a file of them."""
    patients = importlib.import_module(f"tests.contracts.rule_patients.{rule.name.replace('-', '_')}")
    return patients.sick() if state == "sick" else patients.well()


def found(rule: DoctorRule, patient: Specimen) -> list[Finding]:
    assert not rule.missing(patient), "a patient of a rule has what the rule needs"
    return list(rule.check(patient))


@functools.cache
def said_of(rule: DoctorRule, state: str) -> tuple[Finding, ...]:
    """What it says of a patient that nobody else looks at; worked out once for all tests."""
    return tuple(found(rule, patient_of(rule, state)))


def bits(value: Any) -> Any:
    """Something that is equal to another just where both hold the same bits, whatever it is made of."""
    if isinstance(value, Tensor):
        return (
            tuple(value.shape),
            str(value.dtype),
            value.requires_grad,
            value.detach().contiguous().numpy().tobytes(),
        )
    if isinstance(value, dict):
        return {key: bits(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [bits(one) for one in value]
    return repr(value)


def everything(patient: Specimen) -> dict[str, Any]:
    """All that a look could have changed, of the patient and of the world around it."""
    model = patient.model
    name, numpy_state, *rest = np.random.get_state()
    return {
        "parameters": {path: (id(one), bits(one)) for path, one in model.named_parameters(remove_duplicate=False)},
        "buffers": {path: (id(one), bits(one)) for path, one in model.named_buffers(remove_duplicate=False)},
        "state": bits(model.state_dict()),
        "gradients": {path: (id(one.grad), bits(one.grad)) for path, one in model.named_parameters()},
        "modes": {path: module.training for path, module in model.named_modules()},
        "parts": {path: (id(module), type(module)) for path, module in model.named_modules()},
        "attributes": {path: sorted(vars(module)) for path, module in model.named_modules()},
        "hooks": {path: [len(getattr(part, name)) for name in HOOKS] for path, part in model.named_modules()},
        "hooks of parameters": {path: bool(one._backward_hooks) for path, one in model.named_parameters()},
        "batch": bits((patient.inputs, patient.targets, patient.more)),
        "gradients of the batch": [bits(one.grad) for one in patient.inputs if isinstance(one, Tensor)],
        "optimizer": None if patient.optimizer is None else bits(patient.optimizer.state_dict()),
        "randomness": (torch.get_rng_state().numpy().tobytes(), random.getstate(), name, numpy_state.tobytes(), rest),
        "settings": (
            *(torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()),
            *(torch.are_deterministic_algorithms_enabled(), torch.is_anomaly_enabled()),
            *(torch.backends.mha.get_fastpath_enabled(), torch.backends.cuda.math_sdp_enabled()),
            *(torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()),
        ),
    }


def test_each_file_carries_one_rule_of_its_name_and_each_rule_has_patients():
    for package in (pellucid.inspection.rules, tests.contracts.rule_patients):
        files = {one.name.replace("_", "-") for one in pkgutil.iter_modules(package.__path__)}
        assert files == set(RULES)


def test_its_card_says_what_it_proves_and_how(rule):
    assert rule.again == rule.again.strip()
    for sentence in (rule.proves, rule.how, rule.cannot_see):
        assert re.fullmatch(r"[a-z0-9(].*[^.\s]", sentence), "a clause that can follow a colon, without its full stop"
        assert len(sentence) <= 200
    assert set(rule.needs) <= {"targets", "loss", "optimizer", "step"}


def test_it_finds_its_sick_patient(rule):
    grave = (*ILL, "note") if rule.name in SLIGHT else ILL
    assert [one for one in said_of(rule, "sick") if one.severity in grave]


def test_it_passes_its_well_patient_and_says_what_is_sound(rule):
    findings = said_of(rule, "well")
    assert [one for one in findings if one.severity in ILL] == []
    assert [one for one in findings if one.severity == "sound"]


@pytest.mark.parametrize("state", ["sick", "well"])
def test_a_finding_says_where_what_and_what_next(rule, state):
    for one in said_of(rule, state):
        assert not one.rule, "the doctor fills it in"
        assert one.severity in SEVERITIES
        assert one.where
        assert re.search(r"\d", one.seen), "what was seen has a number"
        assert one.means
        if one.severity in ILL:
            assert one.try_next
            assert one.again or rule.again
        for words in (one.where, one.seen, one.means, one.try_next):
            assert words == words.strip()
            assert "\n" not in words
            assert not words.endswith(".")


RAISES = {"nan-origin": "returned nan values"}  # code that shows it by what it raises


@pytest.mark.filterwarnings("ignore")  # as of anomaly detection, which is slow
def test_the_code_that_shows_it_again_runs_as_it_is_printed(rule, capsys):
    patient = patient_of(rule, "sick")
    for one in diagnose(patient, [rule.name]).findings:
        names = {"torch": torch, "model": patient.model, "loss": patient.loss, "y": patient.targets}
        names |= {"inputs": patient.inputs, "x": patient.inputs[0] if patient.inputs else None}
        names |= {"optimizer": patient.optimizer, "step": patient.step}
        names |= {"x_other": patient.more[0][0][0] if patient.more else None}
        raised = RAISES.get(rule.name)
        with pytest.raises(RuntimeError, match=raised) if raised else nullcontext():
            exec(compile(one.again, "again", "exec"), names)
    capsys.readouterr()


@pytest.mark.parametrize("state", ["sick", "well"])
def test_looking_changes_nothing(rule, state):
    patient = patient_of(rule, state)
    # Gradients that someone has already are theirs, and a look must neither add to them nor clear them.
    first = next(iter(patient.model.parameters()), None)
    if first is not None and first.requires_grad:
        first.grad = torch.full_like(first, 0.5)
    before = everything(patient)
    found(rule, patient)
    after = everything(patient)
    assert [key for key in before if before[key] != after[key]] == []


@pytest.mark.parametrize("state", ["sick", "well"])
def test_the_same_patient_gets_the_same_findings(rule, state):
    """Also when the world's dice were thrown in between: what is drawn, is drawn from a seed of the rule's own."""
    first = list(said_of(rule, state))
    torch.manual_seed(12345)
    random.seed(12345)
    patient = patient_of(rule, state)
    assert found(rule, patient) == first
    assert found(rule, patient) == first


@pytest.mark.parametrize("state", ["sick", "well"])
def test_its_patients_are_made_without_touching_the_dice(rule, state):
    before = torch.get_rng_state()
    patient_of(rule, state)
    assert torch.equal(before, torch.get_rng_state())


class Nothing(nn.Module):
    """Puts out nothing at all."""

    def forward(self, rows: Tensor) -> None:
        return None


class Many(nn.Module):
    """Puts out a dictionary, in which the tensors are deep down."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, rows: Tensor, scale: float) -> dict[str, Any]:
        return {"parts": [self.linear(rows) * scale, None], "words": "none"}


STRANGE = {
    "without parameters": lambda: Specimen(nn.Identity(), (torch.ones(2, 3),)),
    "without output": lambda: Specimen(Nothing(), (torch.ones(2, 3),)),
    "with a single row": lambda: Specimen(nn.Linear(3, 2).requires_grad_(False), (torch.ones(1, 3),)),
    "without a batch": lambda: Specimen(nn.Linear(3, 2), (torch.ones(3),)),
    "without rows": lambda: Specimen(nn.Linear(3, 2), (torch.ones(0, 3),)),
    "with parts in a dictionary": lambda: Specimen(Many(), (torch.ones(2, 3), 0.5)),
    "with a loss that no gradient passes": lambda: Specimen(
        nn.Linear(3, 2),
        (torch.ones(2, 3),),
        torch.ones(2, 2),
        lambda outputs, targets: (outputs.detach() - targets).square().mean(),
    ),
    "with targets of a strange type": lambda: Specimen(
        nn.Linear(3, 2), (torch.ones(2, 3),), torch.ones(2, dtype=torch.bool), lambda outputs, targets: outputs.mean()
    ),
    "with numbers that are none": lambda: Specimen(
        nn.Linear(3, 2),
        (torch.full((4, 3), torch.nan),),
        torch.tensor([0, 1, 0, 1]),
        nn.functional.cross_entropy,
    ),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_strange_patient_raises_nothing(rule, kind):
    torch.manual_seed(0)
    patient = STRANGE[kind]()
    if not rule.missing(patient):
        before = everything(patient)
        list(rule.check(patient))
        assert [key for key, one in everything(patient).items() if one != before[key]] == []
