"""Runs every rule that a patient is ready for, and brings what they proved in order.

A rule that fails says nothing about the patient: what it wanted to know is reported as not known. Whatever a rule does,
the patient leaves as it came.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError, one_line, quoted, require_one_of
from pellucid.inspection.again import code_to_print
from pellucid.inspection.batch_file import StoredBatch, read_batch
from pellucid.inspection.instrument.copy_fidelity import copy_differs
from pellucid.inspection.instrument.isolation import Snapshot, few_threads, first_line, isolate, require_initialized
from pellucid.inspection.instrument.nests import tensors_in
from pellucid.inspection.instrument.specimen import LossFunction, Specimen, TrainStep
from pellucid.inspection.losses import find_loss_function
from pellucid.inspection.rules import ANY, DoctorRule, rules
from pellucid.inspection.their_code import load_name, translate_errors
from pellucid.records import Diagnosis, Finding, RuleTime, Statement, as_plain, gravest_first, make_note

LONGEST_REASON = 160
GRAVE = ("broken", "suspicious")


def diagnose(specimen: Specimen, names: Sequence[str] = (), seed: int = 0) -> Diagnosis:
    """What the rules prove of a specimen, the gravest first; all rules where no names are given.

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
    notes: list[Statement] = []
    state = Snapshot(specimen)
    specimen, difference = with_faithful_copies(specimen)
    opening = [*_opening(specimen, seed), *_of_warnings(specimen, seed)]
    findings += [finding._replace(rule="opening") for finding in opening]
    # The model itself was copied, so that this can only be the batch, as by an activation in place.
    notes += [make_note("pass-changed", what=what) for what in state.restore()]
    with few_threads(specimen.model):
        for rule in chosen:
            found, seconds, passed_over = _ask_rule(rule, specimen, seed)
            findings += found
            times.append(RuleTime(rule.name, seconds, passed_over))
            # A rule that changes something is a mistake of ours, and still nobody's weights may suffer for it.
            notes += [make_note("rule-changed", rule=rule.name, what=what) for what in state.restore()]
    if difference:
        findings = [_of_unfaithful_copies(difference), *[one for one in findings if one.severity != "sound"]]
    in_order = hang_under_causes(findings, {rule.name: rule for rule in chosen})
    return Diagnosis(specimen.name, tuple(in_order), tuple(times), time.perf_counter() - began, tuple(notes))


def hang_under_causes(findings: Sequence[Finding], known: Mapping[str, DoctorRule]) -> list[Finding]:
    """The findings in the order in which they are best mended: each cause, with what follows from it behind it.

    >>> known = rules()
    >>> cut = Finding.broken("head", "no gradient", "cut", "mend")._replace(rule="detached-path")
    >>> symptom = Finding.suspicious("model", "does not learn", "slow", "look")._replace(rule="cannot-overfit")
    >>> [(one.rule, one.cause) for one in hang_under_causes([symptom, cut], known)]
    [('detached-path', ''), ('cannot-overfit', 'detached-path')]
    """
    grave = [one for one in gravest_first(findings) if one.severity in GRAVE]
    caused: dict[str, list[Finding]] = {}
    roots: list[Finding] = []
    for one in grave:
        cause = _cause_of(one, grave, known)
        if cause:
            caused.setdefault(cause, []).append(one._replace(cause=cause))
        else:
            roots.append(one)
    hung: list[Finding] = []
    for root in roots:
        hung += [root, *_consequences(root.rule, caused)]
    return [*hung, *gravest_first(one for one in findings if one.severity not in GRAVE)]


def _cause_of(finding: Finding, grave: Sequence[Finding], known: Mapping[str, DoctorRule]) -> str:
    """The rule of the gravest finding that explains this one; "" where none does."""
    follows = known[finding.rule].follows if finding.rule in known else ()
    for other in grave:
        if other.rule == finding.rule or other.rule not in known:
            continue
        is_root = not known[other.rule].follows
        if other.rule in follows or (follows == ANY and is_root):
            # Of two that each explain the other, the one that is seen first is the cause.
            if finding.rule in known[other.rule].follows:
                continue
            return other.rule
    return ""


def _consequences(rule: str, caused: dict[str, list[Finding]]) -> list[Finding]:
    found: list[Finding] = []
    for one in caused.pop(rule, []):
        found += [one, *_consequences(one.rule, caused)]
    return found


def with_faithful_copies(specimen: Specimen) -> tuple[Specimen, str]:
    """The specimen, whose copies have its hooks if these change something, and how a copy still differs from it."""
    difference = copy_differs(specimen)
    if not difference:
        return specimen, ""
    hooked = replace(specimen, keeps_hooks=True)
    with_hooks = copy_differs(hooked)
    return (hooked, "") if not with_hooks else (specimen, difference)


def _of_unfaithful_copies(difference: str) -> Finding:
    return Finding.note(
        "the model",
        difference,
        "most probes work on copies, so nothing here is certified as sound; findings are of the copy",
        "look for hooks, for functions that hold on to the model's weights, and for tensors kept outside of it",
        again="import copy; copied = copy.deepcopy(model); print((copied(x) - model(x)).abs().max())",
    )


def with_findings(diagnosis: Diagnosis, more: Iterable[Finding]) -> Diagnosis:
    """The diagnosis with what is known from elsewhere, as from looks while it was trained.

    >>> found = Finding("note", "here", "1 of 2", "it is so", "")
    >>> with_findings(Diagnosis("net", (), (), 0.0), [found]).findings == (found,)
    True
    """
    findings = hang_under_causes([*diagnosis.findings, *more], rules())
    return diagnosis._replace(findings=tuple(findings))


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
                code = code_to_print(finding.again or rule.again, specimen)
                found.append(finding._replace(rule=rule.name, again=code))
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
                again="import copy; copy.deepcopy(model)",
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


def _of_warnings(specimen: Specimen, seed: int) -> Iterator[Finding]:
    """What torch warns of on the way through the model, the loss and back, each once; a step has its own."""
    with isolate(seed), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            copied = specimen.copy()
            outputs = copied.outputs()
            if specimen.has_loss:
                copied.loss_of(outputs).backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        except Exception:  # why it does not go through is told elsewhere
            heard.clear()
    lines = [str(one.message).strip() for one in heard if issubclass(one.category, (UserWarning, RuntimeWarning))]
    for line in dict.fromkeys(one_line(line) for line in lines if line):
        again = "loss(model(x), y).backward()" if specimen.has_loss else "model(x)"
        short = line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"
        yield Finding.note(
            "the model",
            f"torch warns (1 of {len(lines)}): {short}".rstrip("."),
            "as torch says",
            "read it",
            again=again,
        )


def _of_the_loss(specimen: Specimen, outputs: object) -> Iterator[Finding]:
    try:
        loss = specimen.loss_of(outputs)
    except Exception as error:
        yield Finding.broken(
            "loss",
            f"{type(error).__name__}: {reason(error)}",
            "the loss does not take what the model puts out with these targets",
            "compare the shapes and types of both with what the loss asks for",
            again="loss(model(*inputs), y)",
        )
        return
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        came = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
        yield Finding.broken(
            "loss",
            f"the loss gives {came} where one number is wanted",
            "backward() has no single number to start from",
            "take the mean of it",
            again="loss(model(*inputs), y)",
        )


def reason(error: BaseException) -> str:
    """An exception's first line, cut where it is long.

    >>> reason(ValueError("no\\nmore"))
    'no'
    """
    line = one_line(first_line(error) or type(error).__name__)
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


# What the doctor is given, checked and made a specimen: by a call in Python, or by a name in someone's file. In a
# file the simplest is a function that returns (model, inputs, targets, loss) and, if there is one, the optimizer.
# What it does not give can come from a file of tensors and the name of a loss.

CONTRACT = "Return (model, inputs, targets, loss) from a function without arguments"


def build_specimen(
    model: nn.Module,
    batch: Any,
    loss: LossFunction | str | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    step: TrainStep | None = None,
    more: Sequence[Any] = (),
    is_causal: bool | None = None,
    time_axis: int | None = None,
    name: str = "",
    whose: str = "",
) -> Specimen:
    """What the doctor is shown; what cannot be one is refused. whose: " of 'net'", for messages.

    A function without arguments in the place of the loss is a step of training.
    """
    if not isinstance(model, nn.Module):
        fix = "Call the class first" if isinstance(model, type) else "Give an instance of torch.nn.Module"
        raise PellucidError(f"the model is a {type(model).__name__}, not a module", fix=fix)
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise PellucidError(
            f"the optimizer{whose} is a {type(optimizer).__name__}",
            fix="Give one torch.optim.Optimizer, or leave it out",
        )
    function = (find_loss_function(loss) if loss else None) if isinstance(loss, str) else loss
    if function is not None and not callable(function):
        raise PellucidError(
            f"the loss is a {type(loss).__name__}", fix="Give a function of outputs and targets, or a name"
        )
    if step is None and function is not None and _takes_nothing(function):
        step, function = cast(TrainStep, function), None
    inputs, targets = split_batch(batch, whose)
    further = tuple(split_batch(one, whose) for one in more)
    called = name or type(model).__name__
    specimen = Specimen(model, inputs, targets, function, optimizer, further, is_causal, called, step)
    return with_time(specimen, is_causal, time_axis)


def with_time(specimen: Specimen, is_causal: bool | None, time_axis: int | None) -> Specimen:
    """The specimen with what is said of time; what is not said stays as it is.

    >>> with_time(Specimen(nn.GRU(2, 2), (torch.ones(5, 3, 2),)), None, -3).time_axis
    0
    """
    if is_causal is not None:
        specimen = replace(specimen, is_causal=is_causal)
    if time_axis is None:
        return specimen
    most = max((one.dim() for one in specimen.inputs if isinstance(one, Tensor)), default=0)
    if not -most <= time_axis < most:
        raise PellucidError(
            f"{{time_axis}} is {time_axis}, and the inputs have {most} axes",
            fix=f"Give a number from 0 to {max(most - 1, 0)}",
            options={"time_axis": None},
        )
    return replace(specimen, time_axis=time_axis % most)


def _takes_nothing(function: Any) -> bool:
    """Whether a function is called without arguments, as a step of training is, and a loss is not.

    >>> _takes_nothing(lambda: None), _takes_nothing(nn.MSELoss()), _takes_nothing(nn.functional.mse_loss)
    (True, False, False)
    """
    called = function.forward if isinstance(function, nn.Module) else function
    try:
        inspect.signature(called).bind()
    except (TypeError, ValueError):  # it wants something, or does not say what
        return False
    return True


def split_batch(batch: Any, whose: str = "") -> StoredBatch:
    """A batch as what forward takes, and the targets: a tensor, (inputs, targets), or a file of them.

    >>> inputs, targets = split_batch([torch.zeros(4, 2), torch.zeros(4)])  # as a DataLoader gives it
    >>> len(inputs), targets.shape
    (1, torch.Size([4]))
    """
    if isinstance(batch, str | Path):
        return read_batch(Path(batch), needs_names=True)
    if isinstance(batch, Tensor):
        return StoredBatch((batch,))
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        came = f"of {len(batch)}" if isinstance(batch, tuple | list) else f"that is a {type(batch).__name__}"
        raise PellucidError(
            f"a batch {came} came where (inputs, targets) is wanted",
            fix="Give ((first, second), targets) where forward takes several inputs",
        )
    inputs, targets = batch
    if targets is not None and not tensors_in(targets):
        came = type(targets).__name__
        raise PellucidError(f"the targets{whose} are a {came} without a tensor in it", fix="Give them as tensors")
    if isinstance(inputs, dict):
        raise PellucidError(
            f"the inputs{whose} are a dictionary, and names cannot be told to forward",
            fix="Give them as a tuple in the order of forward",
        )
    return StoredBatch(tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,), targets)


def specimen_from(
    given: object,
    name: str,
    batch: str = "",
    loss: str = "",
    is_causal: bool | None = None,
    time_axis: int | None = None,
) -> Specimen:
    """What a file has under a name, as a specimen. batch: a file of tensors, loss: a name, in place of its own.

    >>> def patient():
    ...     return nn.Linear(2, 3), torch.ones(4, 2), torch.zeros(4, dtype=torch.long)
    >>> found = specimen_from(patient, "patient", loss="cross-entropy")
    >>> found.n_rows, round(found.loss_of(torch.zeros(4, 3)).item(), 4)
    (4, 1.0986)
    """
    if not isinstance(given, nn.Module | Specimen) and callable(given):
        given = _call_maker(given, name)
    if isinstance(given, nn.Module):
        given = (given,)
    if isinstance(given, Specimen):
        specimen = given
    elif isinstance(given, tuple) and 0 < len(given) <= 5 and isinstance(given[0], nn.Module):
        parts: list[Any] = [*given, *[None] * (5 - len(given))]
        model, inputs, targets, function, optimizer = parts
        own = (() if inputs is None else inputs, targets)
        specimen = build_specimen(model, own, function, optimizer, name=name, whose=f" of {quoted(name)}")
    else:
        raise PellucidError(f"{quoted(name)} gives a {type(given).__name__}, which is no patient", fix=CONTRACT)
    if batch:
        stored = read_batch(Path(batch), needs_names=True)
        specimen = replace(specimen, inputs=stored.inputs, targets=stored.targets)
    if not specimen.inputs:
        raise PellucidError(
            f"there is no batch for {quoted(name)}", fix="Give {batch}, or return it", options={"batch": None}
        )
    specimen = with_time(specimen, is_causal, time_axis)
    return replace(specimen, loss=find_loss_function(loss)) if loss else specimen


def _call_maker(make: Any, name: str) -> object:
    try:
        return make()
    except TypeError as error:
        if "argument" in str(error):
            raise PellucidError(f"{quoted(name)} wants arguments", fix=CONTRACT) from error
        raise


def examine_file(job: Mapping[str, Any]) -> object:
    """The diagnosis of what a file has under a name, as plain values; the job of a child of `sandbox`.

    job: file, name, batch (a file of tensors, or ""), loss (the name of one, or ""), is_causal, time_axis, rules and
    seed.
    """
    path, name = Path(job["file"]), str(job["name"])
    found = load_name(path, name)
    with translate_errors(path):
        batch, loss = str(job["batch"]), str(job["loss"])
        specimen = specimen_from(found.value, name, batch, loss, job.get("is_causal"), job.get("time_axis"))
        diagnosis = diagnose(specimen, list(job["rules"]), int(job["seed"]))
    mended = [make_note("file-mended", file=path.name, mistake=str(mistake)) for mistake in found.mistakes]
    return as_plain(diagnosis._replace(notes=(*mended, *diagnosis.notes)))
