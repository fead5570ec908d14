"""Runs every rule that a patient is ready for, and brings what they proved in order.

A rule that fails says nothing about the patient: what it wanted to know is reported as not known. Whatever a rule does,
the patient leaves as it came.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import PellucidError, did_you_mean, one_line, quoted
from pellucid.inspection.patient import Patient
from pellucid.inspection.rule import SEVERITIES, Rule, is_ready, rules
from pellucid.inspection.state import State, chance, require_shapes, set_chance
from pellucid.records import Diagnosis, Finding, RuleTime

LONGEST_REASON = 160
MANY_PARAMETERS = 2_000_000  # from there on several threads are worth their meetings


def diagnose(patient: Patient, names: Sequence[str] = (), seed: int = 0) -> Diagnosis:
    """What the rules prove of a patient, the gravest first; all rules where no names are given.

    >>> from torch import nn
    >>> model = nn.Linear(4, 3)
    >>> batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    >>> diagnose(Patient(model, (batch,), torch.arange(8) % 3, nn.CrossEntropyLoss())).is_ill
    False
    """
    return examined(patient, _chosen(names), seed)


def examined(patient: Patient, chosen: Sequence[Rule], seed: int = 0) -> Diagnosis:
    """What these rules prove of a patient."""
    require_shapes(patient.model)
    began = time.perf_counter()
    findings: list[Finding] = []
    times: list[RuleTime] = []
    notes: list[str] = []
    state = State(patient)
    findings += _opening(patient, seed)
    # The model itself was copied, so that this can only be the batch, as by an activation in place.
    notes += [f"one pass through the model changed {what}; it was put back" for what in state.restored()]
    with few_threads(patient):
        for rule in chosen:
            found, seconds, passed_over = _asked(rule, patient, seed)
            findings += found
            times.append(RuleTime(rule.name, seconds, passed_over))
            # A rule that changes something is a mistake of ours, and still nobody's weights may suffer for it.
            notes += [f"the rule {rule.name} changed {what}; it was put back" for what in state.restored()]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Diagnosis(patient.name, tuple(findings), tuple(times), time.perf_counter() - began, tuple(notes))


def with_findings(diagnosis: Diagnosis, more: Iterable[Finding]) -> Diagnosis:
    """The diagnosis with what is known from elsewhere, as from looks while it was trained.

    >>> found = Finding("note", "here", "1 of 2", "it is so", "")
    >>> with_findings(Diagnosis("net", (), (), 0.0), [found]).findings == (found,)
    True
    """
    together = sorted([*diagnosis.findings, *more], key=lambda finding: SEVERITIES.index(finding.severity))
    return diagnosis._replace(findings=tuple(together))


def _chosen(names: Sequence[str]) -> list[Rule]:
    known = rules()
    for name in names:
        if name not in known:
            raise PellucidError(
                f"the doctor has no rule called {quoted(name)}",
                fix=did_you_mean(name, known, f"Choose of {', '.join(known)}"),
            )
    return [known[name] for name in dict.fromkeys(names)] if names else list(known.values())


def _asked(rule: Rule, patient: Patient, seed: int) -> tuple[list[Finding], float, str]:
    """What one rule finds, how long it took, and why it found nothing, if it did not."""
    if not is_ready(rule, patient):
        missing = [need for need in rule.needs if getattr(patient, need) is None]
        return [], 0.0, f"needs the {' and the '.join(missing)}"
    found: list[Finding] = []
    passed_over = ""
    began = time.perf_counter()
    with examination(seed):
        try:
            for finding in rule.check(patient):
                found.append(
                    finding._replace(rule=finding.rule or rule.name)
                )  # what is proven stands, should it raise later
        except Exception as error:
            passed_over = f"not known: {reason(error)}"
    if not found and not passed_over:
        passed_over = "does not apply"
    return found, time.perf_counter() - began, passed_over


@contextmanager
def few_threads(patient: Patient) -> Iterator[None]:
    """One thread for a small model: hundreds of its tiny steps would mostly wait for threads to meet.

    Measured on a busy machine with two cores: 450 steps of 400 parameters took 25 s in two threads, 1.5 s in one.
    """
    before = torch.get_num_threads()
    if sum(parameter.numel() for parameter in patient.model.parameters()) < MANY_PARAMETERS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def examination(seed: int) -> Iterator[None]:
    """Inside, everything that is drawn is drawn from the seed, gradients are on, and warnings are silent."""
    before = chance()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    try:
        with torch.inference_mode(False), torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        set_chance(before)


def _opening(patient: Patient, seed: int) -> Iterator[Finding]:
    """Whether the batch goes through the model and the loss at all: where it does not, nothing more can be proven."""
    with examination(seed):
        try:
            looked_at = patient.copied()
        except Exception as error:
            yield Finding(
                "note",
                "the model",
                f"it cannot be copied: {reason(error)}",
                "most probes work on copies, and are passed over",
                "keep tensors that were computed out of the module's attributes, or detach them",
                rule="opening",
                again="copy.deepcopy(model)",
            )
            return
        try:
            outputs = looked_at.outputs()
        except Exception as error:
            yield Finding(
                "broken",
                "the model",
                f"{type(error).__name__} on this batch: {reason(error)}",
                "the batch does not go through the model",
                "pellucid inspect shows the layer, the two numbers that disagree and repairs that were tried",
                rule="opening",
                again="model(*inputs)",
            )
            return
        if patient.loss is not None and patient.targets is not None:
            yield from _of_the_loss(looked_at, outputs)


def _of_the_loss(patient: Patient, outputs: object) -> Iterator[Finding]:
    try:
        loss = patient.loss_of(outputs)
    except Exception as error:
        yield Finding(
            "broken",
            "loss",
            f"{type(error).__name__}: {reason(error)}",
            "the loss does not take what the model puts out with these targets",
            "compare the shapes and types of both with what the loss asks for",
            rule="opening",
            again="loss(model(*inputs), targets)",
        )
        return
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        came = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
        yield Finding(
            "broken",
            "loss",
            f"the loss gives {came} where one number is wanted",
            "backward() has no single number to start from",
            "take the mean of it",
            rule="opening",
            again="loss(model(*inputs), targets)",
        )


def reason(error: BaseException) -> str:
    """An exception's first line, cut where it is long.

    >>> reason(ValueError("no\\nmore"))
    'no'
    """
    said = str(error).strip() or type(error).__name__
    line = one_line(said.splitlines()[0])
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"
