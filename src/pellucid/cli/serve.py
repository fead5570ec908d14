"""`pellucid serve`: the network of a run over HTTP, for OpenAI's clients and any other."""

from __future__ import annotations

from typing import Any

import click

from pellucid.cli.options import command_named, options_from
from pellucid.serve.options import ServeOptions


@command_named(
    "serve",
    "pellucid serve names-transformer",
    "pellucid serve penguins-tabm --port 9000",
    "pellucid serve names-transformer --host 0.0.0.0 --api-key-env PELLUCID_KEY",
)
@click.argument("run", metavar="RUN")
@options_from(ServeOptions)
def command(run: str, **given: Any) -> None:
    """Answer over HTTP with the network of RUN: a folder that pellucid train made, or its name under runs/.

    A run of a list or of running text answers POST /v1/completions as OpenAI's API does, streams included; one of
    tables, images or pairs answers POST /v1/predict. GET /v1/models, /health and /metrics tell what is there. It
    listens to this machine alone unless told otherwise, and ends on Ctrl-C or SIGTERM when running requests are done.
    """
    from pellucid.serve.running import serve_run

    options = ServeOptions(**{name: value for name, value in given.items() if value is not None})
    ended_by = serve_run(run, options, say=click.echo)
    if ended_by:
        raise click.exceptions.Exit(128 + ended_by)
