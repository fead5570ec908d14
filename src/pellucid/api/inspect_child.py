"""What the child of `pellucid inspect` does: makes the modules, looks at them, and gives back plain records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.inspection.batch_file import read_batch
from pellucid.inspection.expression.modules import build_module
from pellucid.inspection.expression.syntax import InputShape, parse_shape
from pellucid.inspection.inspect import as_mistake, inspect_expression, inspect_module, make_inputs
from pellucid.inspection.instrument.isolation import borrow_module
from pellucid.inspection.shapes.causes import attempt_forward
from pellucid.inspection.their_code import as_module, load_name, translate_errors
from pellucid.models.catalogue import PublishedNetwork, find_published
from pellucid.records import Inspection, as_plain, make_note
from pellucid.records.inspection import Mistake

USUAL_LENGTH = 16
ROWS = 2


def inspect_job(job: Mapping[str, Any]) -> object:
    """The inspection of each model of a job, as plain values.

    job: models, each with a kind (expression, file, run or published) and what belongs to it; shapes of inputs; batch,
    a file.
    """
    found: list[Inspection] = []
    first: tuple[Tensor, ...] = ()
    for wanted in job["models"]:
        inspection, inputs = _looked_at(wanted, job, first)
        first = first or inputs
        found.append(inspection)
    return as_plain(found)


def _looked_at(
    wanted: Mapping[str, Any], job: Mapping[str, Any], first: tuple[Tensor, ...]
) -> tuple[Inspection, tuple[Tensor, ...]]:
    """One model on the inputs that are given, on its own, or on those of the model that it stands beside."""
    name = str(wanted["name"])
    if wanted["kind"] == "published":
        published = find_published(name)
        assert published is not None
        inputs = _given_inputs(job, nn.Identity())
        return inspect_published(published, inputs), inputs
    if wanted["kind"] == "expression":
        made = build_module(str(wanted["text"]))
        inputs = _given_inputs(job, made.module) or _fitting(first, made.module)
        return inspect_expression(made, inputs, name), inputs
    mistakes: tuple[Mistake, ...] = ()
    own: tuple[Any, ...]
    if wanted["kind"] == "file":
        path = Path(wanted["file"])
        found = load_name(path, str(wanted["of"]))
        model, own = as_module(found.value, str(wanted["of"]), path)
        mistakes = tuple(map(as_mistake, found.mistakes))
    else:
        model, own = network_of(Path(wanted["run"]))
    inputs = _given_inputs(job, model) or own or _fitting(first, model)
    try:
        return inspect_module(model, inputs, name)._replace(mistakes=mistakes), inputs
    except (SystemExit, MemoryError):  # what a forward of theirs can raise past every other handler
        with translate_errors(Path(wanted.get("file", ""))):
            raise


def inspect_published(published: PublishedNetwork, inputs: tuple[Any, ...] = ()) -> Inspection:
    """A network that papers name, without numbers in it: on one picture of the published size, unless others are given.

    >>> from pellucid.models.catalogue import PUBLISHED
    >>> seen = inspect_published(PUBLISHED[0])
    >>> seen.parameters == PUBLISHED[0].parameters, round(seen.flops_by_operation / 2e9, 2)
    (True, 4.41)
    """
    from pellucid.models.examples.published import example_pictures

    with torch.device("meta"):
        model = published.build().eval()
    given = tuple(one.to("meta") if isinstance(one, Tensor) else one for one in inputs)
    seen = inspect_module(model, given or (example_pictures(),), published.name)
    counted = make_note(
        "published",
        parameters=published.parameters,
        multiply_adds=published.multiply_adds,
        own_parameters=seen.parameters,
        own_multiply_adds=seen.flops_by_operation / 2e9,
    )
    return seen._replace(notes=(*seen.notes, make_note("shapes-only"), counted))


def _given_inputs(job: Mapping[str, Any], model: nn.Module) -> tuple[Tensor, ...]:
    if job["batch"]:
        return read_batch(Path(job["batch"])).inputs
    return make_inputs([parse_shape(word) for word in job["inputs"]], model)


def _fitting(inputs: tuple[Tensor, ...], model: nn.Module) -> tuple[Tensor, ...]:
    """The same inputs, where the other model runs on them too: only so are costs comparable."""
    if not inputs:
        return ()
    try:
        with borrow_module(model) as ours:
            return inputs if attempt_forward(ours, inputs).error is None else ()
    except PellucidError:
        return ()


def network_of(run: Path) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The network of a run with its best weights, and inputs as it reads them; its data need not be there."""
    from pellucid.models.catalogue import find_network
    from pellucid.models.contracts import PairModel, SequenceModel
    from pellucid.runs import open_run
    from pellucid.training.checkpoints import load_network

    opened = open_run(run)
    model, _ = load_network(opened)
    if isinstance(model, SequenceModel):
        length = min(USUAL_LENGTH, model.longest)
        shapes = [(InputShape((ROWS, length), "int"), model.vocab_size)]
    elif isinstance(model, PairModel):
        shapes = [
            (InputShape((ROWS, model.longest_source), "int"), model.vocab_size),
            (InputShape((ROWS, model.longest_target + 1), "int"), model.vocab_size),
        ]
    else:
        config = find_network(opened.model, opened.kind).config_from(opened.config)
        shapes = [
            (InputShape((ROWS, *config.numbers), "float"), 1),
            (InputShape((ROWS, len(config.categories)), "int"), min(config.categories, default=1)),
        ]
    inputs = tuple(make_inputs([shape], nn.Embedding(below, 1))[0] for shape, below in shapes)
    return model.eval(), inputs
