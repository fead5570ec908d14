"""`pellucid export`: a run for Hugging Face, ONNX Runtime, llama.cpp, or torch without pellucid."""

from __future__ import annotations

import click

from pellucid.cli.contract import show_answer
from pellucid.cli.options import command_named, json_option, options_from
from pellucid.errors import PellucidError
from pellucid.export.request import ExportOptions


@command_named(
    "export",
    "pellucid export names-transformer --to torch",
    "pellucid export penguins-tabm --to onnx --out penguins",
    "pellucid export my-book --to hf",
    "pellucid export my-book --to gguf --network-only",
)
@click.argument("run", metavar="RUN")
@options_from(ExportOptions)
@json_option
def command(run: str, to: str | None, out: str | None, network_only: bool, as_json: bool) -> None:
    """Write the network of RUN as other tools take it, into a new folder.

    hf is a folder that transformers loads without code of ours, onnx one graph with its preparation inside, gguf a file
    for llama.cpp and Ollama, and torch the network's own source in one readable file. Whatever is written is loaded
    with the other tool and compared with the network on 100 inputs before it gets its name; it is there as a whole or
    not at all, and nothing is overwritten. A README.md with data, results and limits is made from the run.
    """
    if not to:
        raise PellucidError("the format is missing", fix="Add {to}, or hf, gguf or torch", options={"to": "onnx"})

    from pellucid.export.request import export_run

    show_answer(export_run(run, to=to, out=out or "", network_only=network_only), as_json=as_json)
