"""Runs every rule that a patient is ready for, and brings what they proved in order.

A rule that fails says nothing about the patient: what it wanted to know is reported as not known. Whatever a rule does,
the patient leaves as it came.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from torch import Tensor

from pellucid.errors import one_line, require_one_of
from pellucid.inspection.instrument.isolation import Snapshot, few_threads, isolate, require_initialized
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.rules import DoctorRule, rules
from pellucid.records import Diagnosis, Finding, RuleTime, gravest_first

LONGEST_REASON = 160


def diagnose(specimen: Specimen, names: Sequence[str] = (), seed: int = 0) -> Diagnosis:
    """What the rules prove of a specimen, the gravest first; all rules where no names are given.

    >>> import torch
    >>> from torch import nn
    >>> model = nn.Linear(4, 3)
    >>> batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    >>> diagnose(Specimen(model, (batch,), torch.arange(8) % 3, nn.CrossEntropyLoss())).is_ill
    False
    """
    return examine_with(specimen, _chosen_rules(names), seed)


def examine_with(specimen: Specimen, chosen: Sequence[DoctorRule], seed: int = 0) -> Diagnosis:
    """What these rules prove of a specimen."""
    require_initialized(specimen.model)
    began = time.perf_counter()
    findings: list[Finding] = []
    times: list[RuleTime] = []
    notes: list[str] = []
    state = Snapshot(specimen)
    findings += [finding._replace(rule="opening") for finding in _opening(specimen, seed)]
    # The model itself was copied, so that this can only be the batch, as by an activation in place.
    notes += [f"one pass through the model changed {what}; it was put back" for what in state.restore()]
    with few_threads(specimen.model):
        for rule in chosen:
            found, seconds, passed_over = _ask_rule(rule, specimen, seed)
            findings += found
            times.append(RuleTime(rule.name, seconds, passed_over))
            # A rule that changes something is a mistake of ours, and still nobody's weights may suffer for it.
            notes += [f"the rule {rule.name} changed {what}; it was put back" for what in state.restore()]
    return Diagnosis(
        specimen.name, tuple(gravest_first(findings)), tuple(times), time.perf_counter() - began, tuple(notes)
    )


def with_findings(diagnosis: Diagnosis, more: Iterable[Finding]) -> Diagnosis:
    """The diagnosis with what is known from elsewhere, as from looks while it was trained.

    >>> found = Finding("note", "here", "1 of 2", "it is so", "")
    >>> with_findings(Diagnosis("net", (), (), 0.0), [found]).findings == (found,)
    True
    """
    return diagnosis._replace(findings=tuple(gravest_first([*diagnosis.findings, *more])))


def _chosen_rules(names: Sequence[str]) -> list[DoctorRule]:
    known = rules()
    for name in names:
        require_one_of("rule of the doctor", name, known)
    return [known[name] for name in dict.fromkeys(names)] if names else list(known.values())


def _ask_rule(rule: DoctorRule, specimen: Specimen, seed: int) -> tuple[list[Finding], float, str]:
    """What one rule finds, how long it took, and why it found nothing, if it did not."""
    if missing := rule.missing(specimen):
        return [], 0.0, f"needs the {' and the '.join(missing)}"
    found: list[Finding] = []
    passed_over = ""
    began = time.perf_counter()
    with isolate(seed):
        try:
            for finding in rule.check(specimen):
                # At once: what is proven stands, should it raise later.
                found.append(finding._replace(rule=rule.name, again=finding.again or rule.again))
        except Exception as error:
            passed_over = f"not known: {reason(error)}"
    if not found and not passed_over:
        passed_over = "does not apply"
    return found, time.perf_counter() - began, passed_over


def _opening(specimen: Specimen, seed: int) -> Iterator[Finding]:
    """Whether the batch goes through the model and the loss at all: where it does not, nothing more can be proven."""
    with isolate(seed):
        try:
            looked_at = specimen.copy()
        except Exception as error:
            yield Finding.note(
                "the model",
                f"it cannot be copied: {reason(error)}",
                "most probes work on copies, and are passed over",
                "keep tensors that were computed out of the module's attributes, or detach them",
                again="copy.deepcopy(model)",
            )
            return
        try:
            outputs = looked_at.model(*specimen.inputs)  # the batch itself, to see whether it is changed
        except Exception as error:
            yield Finding.broken(
                "the model",
                f"{type(error).__name__} on this batch: {reason(error)}",
                "the batch does not go through the model",
                "pellucid inspect shows the layer, the two numbers that disagree and repairs that were tried",
                again="model(*inputs)",
            )
            return
        if specimen.has_loss:
            yield from _of_the_loss(looked_at, outputs)


def _of_the_loss(specimen: Specimen, outputs: object) -> Iterator[Finding]:
    try:
        loss = specimen.loss_of(outputs)
    except Exception as error:
        yield Finding.broken(
            "loss",
            f"{type(error).__name__}: {reason(error)}",
            "the loss does not take what the model puts out with these targets",
            "compare the shapes and types of both with what the loss asks for",
            again="loss(model(*inputs), targets)",
        )
        return
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        came = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
        yield Finding.broken(
            "loss",
            f"the loss gives {came} where one number is wanted",
            "backward() has no single number to start from",
            "take the mean of it",
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
