"""`pellucid doctor`: what can be proven of a model on a batch, and what is wrong with it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    from pellucid.records import Diagnosis

EXIT_ILL = 1
LONGEST = 120.0  # seconds that code of someone's own may take


@click.command(
    "doctor",
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="""
    \b
    Examples:
      pellucid doctor names-transformer
      pellucid doctor model.py:patient
      pellucid doctor model.py:Net --batch batch.npz --loss cross-entropy --all
    """,
)
@click.argument("model", metavar="MODEL")
@click.option("--batch", default="", metavar="FILE", help="Inputs and targets: .npy, .npz, .safetensors or .pt.")
@click.option("--loss", default="", metavar="NAME", help="cross-entropy, mse, l1, huber, bce, nll or hinge.")
@click.option("--data", default="", metavar="FILE", help="Of a run: its data, where they have moved.")
@click.option("--rule", "rules", multiple=True, metavar="NAME", help="Only this rule; may be given several times.")
@click.option("--seed", type=int, default=0, show_default=True, help="What the probes draw from.")
@click.option(
    "--timeout", "seconds", type=float, default=LONGEST, show_default=True, help="Seconds that your file may take."
)
@click.option("--all", "is_whole", is_flag=True, help="Also every rule with its time, and why it said nothing.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON, for machines.")
@click.pass_context
def command(
    ctx: click.Context,
    model: str,
    batch: str,
    loss: str,
    data: str,
    rules: tuple[str, ...],
    seed: int,
    seconds: float,
    is_whole: bool,
    as_json: bool,
) -> None:
    """Prove what is wrong with MODEL and what is right, on a batch; the exit code is 1 where something is broken.

    MODEL is a run of pellucid train, examined on its own dev data with its own loss, or file.py:name: a function that
    returns (model, inputs, targets, loss) and perhaps the optimizer, or a module or class, for which --batch and --loss
    are given. Your file is run in a process of its own. Each finding says where, what was seen, what it means, one fix
    and how to see it again. Nothing of the model is changed.
    """
    from pellucid.runs import is_run

    if is_run(model) or not _is_file(model):
        for name, given in (("--batch", batch), ("--loss", loss)):
            if given:
                raise PellucidError(
                    f"{name} changes nothing for the run {quoted(model)}", fix="Leave it out: a run has its own"
                )
        diagnosis = _of_a_run(model, data, rules, seed)
    elif data:
        raise PellucidError("--data is for a run, and this is a file", fix="Give the batch with --batch FILE")
    else:
        diagnosis = _of_a_file(model, batch, loss, rules, seed, seconds)

    from pellucid.figures.show import record_json
    from pellucid.figures.tables import show_parts
    from pellucid.figures.words.diagnosis import diagnosis_parts

    if as_json:
        click.echo(record_json(diagnosis))
    else:
        show_parts(diagnosis_parts(diagnosis, is_whole=is_whole))
    if diagnosis.is_ill:
        ctx.exit(EXIT_ILL)


def _is_file(word: str) -> bool:
    """Whether it is meant as file.py:name."""
    return ".py" in word


def _of_a_file(word: str, batch: str, loss: str, rules: tuple[str, ...], seed: int, seconds: float) -> Diagnosis:
    """What a file has under a name, examined in a process of its own."""
    from pellucid.inspection.batch_file import require_batch_file
    from pellucid.inspection.sandbox.process import run_in_child
    from pellucid.records import Diagnosis
    from pellucid.records.plain import from_plain

    file, _, name = word.rpartition(":")
    if not file or not name:
        raise PellucidError(f"{quoted(word)} does not say which name", fix=f"Write {word.rstrip(':')}:patient")
    path = Path(file).resolve()
    if not path.is_file():
        raise PellucidError(f"there is no file called {quoted(file)}", fix="Give file.py:name, or the name of a run")
    if not 0 < seconds < math.inf:
        raise PellucidError(f"--timeout is {seconds:g}", fix="Give seconds above 0")
    job = {
        "file": str(path),
        "name": name,
        "batch": str(require_batch_file(Path(batch)).resolve()) if batch else "",
        "loss": loss,
        "rules": rules,
        "seed": seed,
    }
    entry = "pellucid.inspection.sandbox.examine:examine_file"
    return from_plain(Diagnosis, run_in_child(entry, job, seconds=seconds, folder=path.parent, whose=word).plain)


def _of_a_run(word: str, data: str, rules: tuple[str, ...], seed: int) -> Diagnosis:
    """The best network of a run, and what the looks at it while it was trained mean."""
    from pellucid.runs import open_run

    run = open_run(word)

    from pellucid.inspection.doctor import diagnose, with_findings
    from pellucid.inspection.judgements import PICTURED, judge_health
    from pellucid.training.patients import patient_of

    seen = [
        finding._replace(again=f"pellucid draw {PICTURED[finding.rule]} {word}")
        for finding in judge_health(run.health)
        if not rules or finding.rule in rules
    ]
    return with_findings(diagnose(patient_of(run.path, data), rules, seed), seen)
