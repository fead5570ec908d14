"""`doctor`: what can be proven of your module on a batch. `watch`: what goes on inside it while your loop trains it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pellucid.api.results import require_output_path, write_output
from pellucid.errors import PellucidError, did_you_mean, quoted, require_one_of
from pellucid.figures import Shown
from pellucid.runs import open_run

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from pellucid.inspection.instrument.specimen import LossFunction, TrainStep
    from pellucid.inspection.watch import Watch
    from pellucid.records import Diagnosis, Finding, Health, RuleExplanation, Watched

CHILD = "pellucid.inspection.doctor:examine_file"
LONGEST = 120.0  # seconds that code of someone's own may take


def doctor(
    model: nn.Module,
    batch: Any,
    loss: LossFunction | str = "",
    optimizer: Optimizer | None = None,
    *,
    step: TrainStep | None = None,
    more: Sequence[Any] = (),
    is_causal: bool | None = None,
    time_axis: int | None = None,
    rules: Sequence[str] = (),
    seed: int = 0,
    name: str = "",
) -> Shown[Diagnosis]:
    """Everything that can be proven of a module on a batch, the gravest first. The module is left as it was.

    batch: (inputs, targets), where inputs is a tensor or a tuple of what forward takes; a tensor alone has no targets;
    or the path of a .npy, .npz, .safetensors or .pt file.
    targets are a tensor, or tensors in tuples, lists, dictionaries and dataclasses, as the loss takes them.
    loss: a function of outputs and targets, or a name such as "cross-entropy"; without it what needs it is passed over.
    step: your own step of training, a function without arguments; it is called in a forked process alone.
    more: further batches of the same form. is_causal: whether position t must not see what comes after it, if you know.
    time_axis: which axis of the inputs is time, where it can't be measured: 0 for (time, batch, ...).
    rules: the names of those to run; all where none is named.

    >>> import torch
    >>> found = doctor(torch.nn.Linear(2, 3), (torch.randn(8, 2), torch.arange(8) % 3), "cross-entropy")
    >>> found.is_ill
    False
    """
    from pellucid.inspection.doctor import build_specimen, diagnose

    specimen = build_specimen(
        model, batch, loss, optimizer, step=step, more=more, is_causal=is_causal, time_axis=time_axis, name=name
    )
    return Shown(diagnose(specimen, rules, seed))


def explain_rule(name: str) -> RuleExplanation:
    """What a rule of the doctor proves, how, and what it cannot see; an unknown one is answered with the nearest.

    >>> explain_rule("future-leak").proves
    'outputs of a causal module move when only later inputs change'
    """
    from pellucid.inspection.rules import rules
    from pellucid.records import RuleExplanation

    known = rules()
    require_one_of("rule of the doctor", name, known)
    rule = known[name]
    return RuleExplanation(rule.name, rule.proves, rule.how, rule.cannot_see, rule.needs, rule.follows)


def doctor_run(word: str | Path, *, data: str = "", rules: Sequence[str] = (), seed: int = 0) -> Diagnosis:
    """The best network of a run on its own dev data, and what the looks at it while it was trained mean.

    data: where its data are, if they moved.
    """
    run = open_run(word)

    from pellucid.inspection.doctor import diagnose, with_findings
    from pellucid.inspection.judgements import PICTURED, judge_health
    from pellucid.training.run import load_specimen

    seen = [
        finding._replace(again=f"pellucid draw {PICTURED[finding.rule]} {word}")
        for finding in judge_health(run.health)
        if not rules or finding.rule in rules
    ]
    return with_findings(diagnose(load_specimen(run, data), rules, seed), seen)


def doctor_file(
    word: str,
    *,
    batch: str = "",
    loss: str = "",
    is_causal: bool | None = None,
    time_axis: int | None = None,
    rules: Sequence[str] = (),
    seed: int = 0,
    timeout: float = LONGEST,
) -> Diagnosis:
    """What a file has under a name, as "model.py:patient", examined in a process of its own.

    batch: a file of inputs and targets, and loss: the name of a loss, in place of its own. is_causal and time_axis: as
    for `doctor`.
    """
    from pellucid.inspection.batch_file import require_batch_file
    from pellucid.inspection.sandbox import run_in_child
    from pellucid.records import Diagnosis
    from pellucid.records.plain import from_plain

    file, _, name = word.rpartition(":")
    if not file or not name:
        raise PellucidError(f"{quoted(word)} does not say which name", fix=f"Write {word.rstrip(':')}:patient")
    path = Path(file).resolve()
    if not path.is_file():
        raise PellucidError(f"there is no file called {quoted(file)}", fix="Give file.py:name, or the name of a run")
    if not 0 < timeout < math.inf:
        raise PellucidError(f"{{timeout}} is {timeout:g}", fix="Give seconds above 0", options={"timeout": None})
    job = {
        "file": str(path),
        "name": name,
        "batch": str(require_batch_file(Path(batch)).resolve()) if batch else "",
        "loss": loss,
        "is_causal": is_causal,
        "time_axis": time_axis,
        "rules": tuple(rules),
        "seed": seed,
    }
    return from_plain(Diagnosis, run_in_child(CHILD, job, seconds=timeout, folder=path.parent, whose=word).plain)


class Watching:
    """A watch over a loop. Inside `with` it looks at some steps; afterwards it tells what they mean."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __enter__(self) -> Watching:
        self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.__exit__(kind, error, trace)

    def findings(self) -> list[Finding]:
        """What was seen, what it means and what to try, the gravest first."""
        return self._watch.findings()

    @property
    def health(self) -> list[Health]:
        """The looks: every layer and every parameter at some of the steps."""
        return self._watch.health

    def report(self) -> Shown[Watched]:
        """All of it: findings, looks and the size of the gradients at every step."""
        return Shown(self._watch.report())

    def draw(self, figure: str, file: str | Path) -> Path:
        """One of the pictures layer-histograms, update-ratios, gradient-norms and unit-maps as .svg, .png or .html."""
        from pellucid.figures.picture import find_figure, picture_file
        from pellucid.figures.words.inspection import WATCH_FIGURES

        if figure not in WATCH_FIGURES:
            raise PellucidError(
                f"a watch has no picture called {quoted(figure)}",
                fix=did_you_mean(figure, WATCH_FIGURES),
            )
        path = Path(file)
        require_output_path(path)
        write_output(path, picture_file(find_figure(figure).draw(self._watch.report()), path.suffix.lower()))
        return path

    def __repr__(self) -> str:
        return repr(self.report())


def watch(model: nn.Module, optimizer: Optimizer) -> Watching:
    """Looks into a module while your own loop trains it; the loop stays as it is.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with watch(model, optimizer) as seen:
    ...     for _ in range(3):
    ...         optimizer.zero_grad()
    ...         model(torch.ones(4, 2)).square().mean().backward()
    ...         optimizer.step()
    >>> [look.step for look in seen.health]
    [1, 2]
    """
    from pellucid.inspection.watch import Watch

    return Watching(Watch(model, optimizer))
