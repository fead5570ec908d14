"""`pellucid open`: a model that others made, from a Hugging Face folder, as a run that every command takes."""

from __future__ import annotations

import click

from pellucid.cli.contract import show_answer
from pellucid.cli.options import command_named, json_option


@command_named(
    "open", "pellucid open ./gpt2", "pellucid open ./gpt2 --name small-gpt", "pellucid sample small-gpt --prompt The"
)
@click.argument("folder", metavar="FOLDER")
@click.option("--name", default="", help="Name of the run's folder under ./runs; by default after FOLDER.")
@json_option
def command(folder: str, name: str, as_json: bool) -> None:
    """Make a run of the causal language model in FOLDER, so that every command takes it.

    FOLDER is on this disk and holds config.json, tokenizer.json and model.safetensors, as Hugging Face has them.
    Nothing is downloaded, no code that comes with a model is run, and weights in a pickle are refused. Whether it is
    causal, and whether it says the same token by token, is measured before the run is made.
    """
    from pellucid.api.open import open_model

    show_answer(open_model(folder, name=name), as_json=as_json)
