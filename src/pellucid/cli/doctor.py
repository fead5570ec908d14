"""`pellucid doctor`: what can be proven of a model on a batch, and what is wrong with it."""

from __future__ import annotations

import click

from pellucid.api.doctor import LONGEST, doctor_file, doctor_run, explain_rule
from pellucid.cli.contract import EXIT_FOUND, show_answer
from pellucid.cli.options import command_named, json_option
from pellucid.errors import PellucidError, quoted
from pellucid.runs import is_run


@command_named(
    "doctor",
    "pellucid doctor names-transformer",
    "pellucid doctor model.py:patient",
    "pellucid doctor model.py:Net --batch batch.npz --loss cross-entropy --all",
    "pellucid doctor --explain future-leak",
)
@click.argument("model", metavar="MODEL", default="")
@click.option("--batch", default="", metavar="FILE", help="Inputs and targets: .npy, .npz, .safetensors or .pt.")
@click.option(
    "--loss", default="", metavar="NAME", help="Loss function: cross-entropy, mse, l1, huber, bce, nll or multi-margin."
)
@click.option(
    "--causal/--not-causal", "is_causal", default=None, help="Whether position t must not see what comes after it."
)
@click.option(
    "--time-axis", type=int, metavar="AXIS", help="Which axis of the inputs is time, if it can't be measured."
)
@click.option("--data", default="", metavar="FILE", help="Data of a run, if they have moved.")
@click.option("--rule", "rules", multiple=True, metavar="NAME", help="Only this rule; may be given several times.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the probes.")
@click.option("--timeout", type=float, default=LONGEST, show_default=True, help="Seconds that your file may take.")
@click.option("--explain", default="", metavar="RULE", help="What this rule proves, how, and what it can't see.")
@click.option("--all", "is_whole", is_flag=True, help="Also every rule with its time, and why it said nothing.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    model: str,
    batch: str,
    loss: str,
    is_causal: bool | None,
    time_axis: int | None,
    data: str,
    rules: tuple[str, ...],
    seed: int,
    timeout: float,
    explain: str,
    is_whole: bool,
    as_json: bool,
) -> None:
    """Prove what is wrong with MODEL and what is right, on a batch; the exit code is 1 where something is broken.

    MODEL is a run of pellucid train, examined on its own dev data with its own loss, or file.py:name: a function that
    returns (model, inputs, targets, loss) and perhaps the optimizer, or a module or class, for which --batch and --loss
    are given. In place of the loss it may return a function without arguments: your own step of training. Your file is
    run in a process of its own. Each finding says where, what was seen, what it means, one fix and how to see it again.
    What follows from it stands below it. Nothing of the model is changed.
    """
    if explain:
        if model:
            raise PellucidError("--explain is about a rule, and a model was given, too", fix="Leave one of them out")
        show_answer(explain_rule(explain), as_json=as_json)
        return
    if not model:
        raise PellucidError("no model is named", fix="Give a run, or file.py:name")
    if is_run(model) or ".py" not in model:
        of_a_file = {"batch": batch, "loss": loss, "causal": is_causal, "time_axis": time_axis}
        for name, given in of_a_file.items():
            if given not in ("", None):
                raise PellucidError(
                    f"{{{name}}} changes nothing for the run {quoted(model)}",
                    fix="Leave it out: a run has its own",
                    options={name: None},
                )
        diagnosis = doctor_run(model, data=data, rules=rules, seed=seed)
    elif data:
        raise PellucidError("--data is for a run, and this is a file", fix="Give the batch with --batch FILE")
    else:
        diagnosis = doctor_file(
            model,
            batch=batch,
            loss=loss,
            is_causal=is_causal,
            time_axis=time_axis,
            rules=rules,
            seed=seed,
            timeout=timeout,
        )

    if is_whole and not as_json:
        from pellucid.figures.tables import show_parts
        from pellucid.figures.words.inspection import diagnosis_parts

        show_parts(diagnosis_parts(diagnosis, is_whole=True))
    else:
        show_answer(diagnosis, as_json=as_json)
    if diagnosis.is_ill:
        ctx.exit(EXIT_FOUND)
