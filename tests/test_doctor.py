"""The doctor itself: what it does with rules that fail or meddle, that looking changes nothing, and the ways to ask."""

import copy
import json
import random
import re
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import pellucid
from pellucid.errors import PellucidError
from pellucid.figures.show import record_json, show
from pellucid.figures.tables import show_parts
from pellucid.figures.words.inspection import diagnosis_parts
from pellucid.figures.words.notes import note_sentences
from pellucid.inspection.doctor import diagnose, examine_with, specimen_from
from pellucid.inspection.instrument.isolation import Snapshot, is_same, rng_state
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.losses import LOSSES, find_loss_function
from pellucid.inspection.rules import DoctorRule, rules
from pellucid.layers.losses import hinge_losses
from pellucid.records import SEVERITIES, Diagnosis, Finding, RuleTime, as_plain, make_note
from pellucid.records.plain import from_plain


class Busy(nn.Module):
    """Everything that could betray a look: dropout, running averages, a frozen part, a hook, gradients, odd modes."""

    def __init__(self):
        super().__init__()
        self.below = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3))
        self.frozen = nn.Linear(16, 16).requires_grad_(False)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.frozen(self.below(x)))


def busy_patient():
    torch.manual_seed(0)
    model = Busy()
    x, y = torch.randn(32, 6), torch.arange(32) % 3
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    model.below[3].eval()
    model.head.register_forward_hook(lambda module, args, out: None)
    more = ((torch.randn(32, 6),), y.flip(0))
    return Specimen(model, (x,), y, nn.CrossEntropyLoss(), optimizer, (more,))


def bits_of(patient):
    model = patient.model
    hooks = [len(module._forward_hooks) + len(module._backward_hooks) for module in model.modules()]
    modes = [(module.training, list(module._parameters)) for module in model.modules()]
    learning = [(p.requires_grad, None if p.grad is None else p.grad.clone(), id(p.grad)) for p in model.parameters()]
    optimizer = copy.deepcopy(patient.optimizer.state_dict())
    tensors = [t.clone() for t in [*model.state_dict().values(), *patient.inputs, patient.targets]]
    return hooks, modes, learning, optimizer, tensors, rng_state()


def same(one, other):
    if isinstance(one, torch.Tensor):
        return is_same(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


def test_looking_changes_nothing_and_sees_the_same_every_time():
    patient = busy_patient()
    before = bits_of(patient)
    first = diagnose(patient, seed=3)
    assert same(bits_of(patient), before)
    assert first.notes == ()  # nothing even had to be put back
    second = diagnose(busy_patient(), seed=3)
    assert first.findings == second.findings
    order = [SEVERITIES.index(finding.severity) for finding in first.findings]
    assert order == sorted(order)
    assert all(finding.rule for finding in first.findings)
    assert {time.rule for time in first.rules} == set(rules())


def asked(check, needs=(), patient=None):
    """The diagnosis of one rule alone, made for the test."""
    rule = DoctorRule("tried", "what it proves", "how", check, "nothing", needs=needs)
    return examine_with(patient or busy_patient(), [rule])


def test_a_rule_that_raises_is_not_known_and_what_it_proved_before_stands():
    def check(patient):
        yield Finding("note", "here", "1", "it is so", "")
        raise RuntimeError("no luck\nand more")

    diagnosis = asked(check)
    assert [(finding.seen, finding.rule) for finding in diagnosis.findings] == [("1", "tried")]
    assert diagnosis.rules[0].passed_over == "not known: no luck"


def test_a_rule_without_what_it_needs_is_passed_over():
    patient = Specimen(nn.Linear(2, 3), (torch.zeros(4, 2),))
    diagnosis = asked(lambda patient: pytest.fail("it ran"), ("targets", "loss"), patient)
    assert diagnosis.rules == (RuleTime("tried", 0.0, "needs the targets and the loss"),)
    assert asked(lambda patient: []).rules[0].passed_over == "does not apply"


def meddle_with_weights(patient):
    with torch.no_grad():
        patient.model.head.weight.add_(1)
        patient.model.below[1].running_mean.fill_(float("nan"))
        patient.inputs[0].zero_()


def meddle_with_gradients(patient):
    patient.model.head.bias.grad = None
    patient.model.head.weight.grad.mul_(2)
    patient.model.frozen.weight.grad = torch.ones(16, 16)


def meddle_with_switches(patient):
    patient.model.eval()
    patient.model.frozen.requires_grad_(True)
    patient.model.below[0].register_forward_hook(lambda module, args, out: None)
    patient.model.head._forward_hooks.clear()


def meddle_with_the_optimizer(patient):
    patient.optimizer.param_groups[0]["lr"] = 7.0
    patient.optimizer.state[patient.model.head.weight]["exp_avg"].add_(1)


@pytest.mark.parametrize(
    ("meddle", "names"),
    [
        (meddle_with_weights, ["head.weight", "below.1.running_mean", "tensor 0 of batch 0"]),
        (
            meddle_with_gradients,
            ["the gradient of frozen.weight", "the gradient of head.weight", "the gradient of head.bias"],
        ),
        (
            meddle_with_switches,
            ["whether frozen.weight learns", "the mode of below.1", "the hooks of below.0", "the hooks of head"],
        ),
        (meddle_with_the_optimizer, ["the optimizer"]),
    ],
)
def test_what_a_rule_meddles_with_is_put_back_and_told(meddle, names):
    patient = busy_patient()
    before = bits_of(patient)

    def check(given):
        meddle(given)
        raise ValueError

    diagnosis = asked(check, patient=patient)
    assert same(bits_of(patient), before)
    for name in names:
        assert f"the rule tried changed {name}; it was put back" in note_sentences(diagnosis.notes)


def test_random_numbers_go_on_as_if_nothing_had_been():
    drawn = []

    def check(patient):
        drawn.append((random.random(), np.random.rand(), torch.rand(1).item()))
        return []

    before = rng_state()
    for _ in range(2):
        asked(check)
    patient = busy_patient()
    assert drawn[0] == drawn[1]
    state = Snapshot(patient)
    asked(check, patient=patient)
    assert state.restore() == []
    torch.manual_seed(0)
    assert same(rng_state()[:2], before[:2])


def test_nothing_is_heard_of_warnings_and_it_works_where_gradients_are_off():
    def check(patient):
        warnings.warn("this would be an error here", stacklevel=1)
        copied = patient.copy()
        copied.loss_of(copied.outputs()).backward()
        return [Finding("sound", "here", "1", "it has gradients", "")]

    patient = busy_patient()
    with torch.no_grad():
        assert asked(check, patient=patient).rules[0].passed_over == ""


def test_rules_are_chosen_by_name_and_an_unknown_one_brings_the_nearest():
    name = next(iter(rules()))
    assert [time.rule for time in diagnose(busy_patient(), [name, name]).rules] == [name]
    with pytest.raises(PellucidError, match=f"Perhaps you meant {name}"):
        diagnose(busy_patient(), [name + "x"])


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x[:, :3])


@pytest.mark.parametrize(
    ("patient", "words"),
    [
        (Specimen(Failing(), (torch.zeros(8, 4),)), "mat1 and mat2 shapes cannot be multiplied"),
        (
            Specimen(
                nn.Linear(4, 3), (torch.zeros(8, 4),), torch.zeros(8).long(), nn.CrossEntropyLoss(reduction="none")
            ),
            r"a tensor of shape \(8,\) where one number is wanted",
        ),
        (
            Specimen(nn.Linear(4, 3), (torch.zeros(8, 4),), torch.zeros(7).long(), nn.CrossEntropyLoss()),
            "ValueError: Expected input batch_size",
        ),
    ],
)
def test_what_does_not_run_at_all_is_broken_and_no_rule_crashes(patient, words):
    diagnosis = diagnose(patient)
    assert diagnosis.is_ill
    opening = [finding for finding in diagnosis.findings if finding.rule == "opening"]
    assert len(opening) == 1
    assert opening[0].severity == "broken"
    assert re.search(words, opening[0].seen)


def test_a_module_that_cannot_be_copied_is_told_and_nothing_crashes():
    model = nn.Linear(4, 3)
    model.kept = model(torch.zeros(1, 4))  # computed, so that torch does not copy it
    diagnosis = diagnose(Specimen(model, (torch.zeros(8, 4),)))
    assert not diagnosis.is_ill
    assert any("it cannot be copied" in finding.seen for finding in diagnosis.findings)


def test_a_module_that_changes_its_batch_leaves_it_as_it_was():
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
    before = x.clone()
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 3))
    diagnosis = diagnose(Specimen(model, (x,), torch.arange(16) % 3, nn.CrossEntropyLoss()))
    assert torch.equal(x, before)
    assert any("tensor 0 of batch 0" in note for note in note_sentences(diagnosis.notes))


# The verb


def test_a_batch_is_a_pair_with_one_or_several_inputs(tmp_path):
    x, y = torch.randn(32, 4), torch.arange(32) % 3
    for batch in ((x, y), [x, y], ((x,), y), x):
        found = pellucid.doctor(nn.Linear(4, 3), batch, "cross-entropy", rules=[next(iter(rules()))])
        assert not found.is_ill
    torch.save((x, y), tmp_path / "batch.pt")
    assert not pellucid.doctor(nn.Linear(4, 3), tmp_path / "batch.pt", "cross-entropy", rules=["batch-mixing"]).is_ill
    bilinear = nn.Bilinear(4, 4, 3)
    assert not pellucid.doctor(bilinear, ((x, x), y), nn.CrossEntropyLoss()).is_ill


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((nn.Linear, torch.zeros(2, 2)), "Call the class first"),
        (("model", torch.zeros(2, 2)), "the model is a str"),
        ((nn.Linear(2, 2), (1, 2, 3)), r"\(first, second\), targets"),
        ((nn.Linear(2, 2), {"x": 1}), "that is a dict"),
        ((nn.Linear(2, 2), ({"x": 1}, None)), "as a tuple in the order of forward"),
        ((nn.Linear(2, 2), (torch.zeros(2, 2), [0, 1])), "targets are a list"),
        ((nn.Linear(2, 2), torch.zeros(2, 2), "cross-entropi"), "Perhaps you meant cross-entropy"),
        ((nn.Linear(2, 2), torch.zeros(2, 2), 3), "the loss is a int"),
        ((nn.Linear(2, 2), torch.zeros(2, 2), "mse", "adam"), "the optimizer is a str"),
        ((nn.LazyLinear(2), torch.zeros(2, 2)), "LazyLinear itself is lazy and needs an input shape"),
    ],
)
def test_what_is_no_patient_is_refused(arguments, words):
    with pytest.raises(PellucidError, match=words):
        pellucid.doctor(*arguments)


def test_losses_by_name_are_those_of_torch():
    scores, classes = torch.randn(4, 5, 3), torch.randint(3, (4, 5))
    assert torch.equal(
        find_loss_function("cross-entropy")({"logits": scores}, classes),
        functional.cross_entropy(scores.transpose(1, 2), classes),
    )
    # As torch has it: classes in the second place.
    assert torch.equal(
        find_loss_function("cross-entropy")(scores, torch.zeros(4, 3).long()),
        functional.cross_entropy(scores, torch.zeros(4, 3).long()),
    )
    numbers = torch.randn(4, 5, 3)
    assert torch.equal(find_loss_function("mse")(scores, numbers), functional.mse_loss(scores, numbers))
    assert torch.equal(find_loss_function("l1")((scores, 1), numbers), functional.l1_loss(scores, numbers))
    assert torch.equal(find_loss_function("huber")(scores, numbers), functional.huber_loss(scores, numbers))
    margin = functional.multi_margin_loss(scores[0], classes[0])
    assert torch.equal(find_loss_function("multi-margin")(scores[0], classes[0]), margin)
    # train's hinge is another loss, so that its name would promise another number here.
    assert "hinge" not in LOSSES
    assert not torch.isclose(hinge_losses(scores[0], classes[0]).mean(), margin)
    truth = (numbers > 0).long()
    bce = functional.binary_cross_entropy_with_logits(scores, truth.float())
    assert torch.equal(find_loss_function("bce")(scores, truth), bce)
    logs = scores.log_softmax(-1)
    assert torch.allclose(
        find_loss_function("nll")(logs, classes), find_loss_function("cross-entropy")(scores, classes)
    )
    with pytest.raises(TypeError, match="no tensor was found"):
        LOSSES["mse"]("words", numbers)


# What someone's file gives


def test_a_function_a_class_a_module_and_a_patient_are_patients(tmp_path):
    x, y = torch.randn(8, 4), torch.arange(8) % 3
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    np.savez(tmp_path / "batch.npz", x=x.numpy(), y=y.numpy())
    batch = str(tmp_path / "batch.npz")
    full = specimen_from(lambda: (model, x, y, nn.CrossEntropyLoss(), optimizer), "patient")
    assert full.optimizer is optimizer
    assert full.loss_of(full.outputs()).dim() == 0
    assert specimen_from(model, "model", batch, "cross-entropy").targets.tolist() == y.tolist()
    assert specimen_from(lambda: Failing(), "make", batch).n_rows == 8
    assert specimen_from(Failing, "Failing", batch).n_rows == 8
    assert specimen_from(full, "full") is full
    assert specimen_from(lambda: (model, (x,), y, "mse"), "patient").loss is LOSSES["mse"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda: nn.Linear(2, 2), "no batch"),
        (lambda x: nn.Linear(2, 2), "wants arguments"),
        (lambda: "words", "gives a str"),
        (lambda: (nn.Linear(2, 2), torch.zeros(2, 2), [1]), "targets of 'it' are a list"),
        (lambda: (nn.Linear(2, 2), {"x": 1}), "a dictionary"),
        (lambda: (nn.Linear(2, 2), torch.zeros(2, 2), None, None, "adam"), "the optimizer of 'it' is a str"),
    ],
)
def test_what_gives_no_patient_is_refused(given, words):
    with pytest.raises(PellucidError, match=words):
        specimen_from(given, "it")


# What is printed

TOLD = Diagnosis(
    "net",
    (
        Finding("broken", "head", "0.5 of 1", "it sees ahead", "mask it", rule="future-leak", again="model(x)"),
        Finding("sound", "loss", "1.0986 nats, ln 3 = 1.0986", "it starts unsure", "", rule="initial-loss"),
    ),
    (RuleTime("future-leak", 0.25), RuleTime("cache", 0.0, "does not apply")),
    1.25,
    (make_note("written", sentence="it was put back"),),
)


def test_the_gravest_is_printed_in_full_and_what_is_sound_in_a_line(capsys):
    show(TOLD)
    assert capsys.readouterr().out.splitlines() == [
        "net: 1 broken; 1 thing proven sound, in 1.2 s",
        "",
        "broken  head: 0.5 of 1.  [future-leak]",
        "  means it sees ahead.",
        "  try   mask it.",
        "  again model(x)",
        "",
        "Proven sound",
        "  ✓ initial-loss: 1.0986 nats, ln 3 = 1.0986",
        "",
        "1 rule did not apply or could not tell; --all shows why",
        "note: it was put back",
    ]
    show_parts(diagnosis_parts(TOLD, is_whole=True))
    assert "cache           0.00  does not apply" in capsys.readouterr().out


def test_a_diagnosis_is_stored_and_read_again():
    plain = json.loads(record_json(TOLD))
    assert plain["is_ill"] is True
    assert from_plain(Diagnosis, {key: value for key, value in plain.items() if key != "is_ill"}) == TOLD
    assert from_plain(Diagnosis, as_plain(TOLD)) == TOLD
