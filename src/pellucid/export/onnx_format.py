"""One ONNX graph, made by torch.onnx.export(dynamo=True), for any number of examples and any length.

    lists, texts    tokens (batch, time) -> logits (batch, time, vocab); counts are tables in the graph
    pairs           sources (batch, source), tokens (batch, time) -> logits (batch, time, vocab)
    images          pixels (batch, height, width[, 3]), 0 to 255 -> probabilities (batch, classes)
    tables          one input for each column, (batch,): numbers as double, nan where one is missing, categories as
                    strings -> probabilities (batch, classes), or value (batch,) in the units of the target

What a network does to its inputs before it reads them is inside: scaling, gaps, categories never seen. Only dates are
taken apart before, into the numbers that the columns are called by, as "sold (month)".
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.errors import PellucidError
from pellucid.records import ExportCheck
from pellucid.runs import Run

if TYPE_CHECKING:
    import onnx

    from pellucid.export.subject import Subject

FILE = "model.onnx"
NEVER = -1e15  # a whole number that no column has
STRANGE = "a category that was never seen"


def refuse(run: Run, *, is_network_only: bool) -> None:
    """Every network of the catalogue can be a graph."""


def write(subject: Subject, folder: Path) -> None:
    from pellucid.export.torch_format import write_reading

    graph = _export(subject)
    if subject.kind == "table":
        _read_columns(graph, subject)
    for name, text in _metadata(subject).items():
        entry = graph.metadata_props.add()
        entry.key, entry.value = name, text
    import onnx

    onnx.checker.check_model(graph)
    (folder / FILE).write_bytes(graph.SerializeToString())
    write_reading(subject, folder)


def _metadata(subject: Subject) -> dict[str, str]:
    """What whoever has the file alone should know."""
    told = {"made by": "pellucid", "run": subject.name, "network": subject.run.model}
    if subject.kind == "table":
        return told | {"classes": json.dumps(subject.table.classes), "target": subject.table.target}
    return told | ({"classes": json.dumps(subject.images.classes)} if subject.kind == "images" else {})


def _export(subject: Subject) -> onnx.ModelProto:
    """The network itself as a graph, with its inputs and its output named."""
    import torch
    from torch.export import Dim

    from pellucid.export.onnx_graphs import build_graph

    built = build_graph(subject)
    shapes = tuple(dict.fromkeys(range(len(names)), Dim.DYNAMIC) for names in built.axes)
    with warnings.catch_warnings(), _without_logs():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            built.module,
            built.example,
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=list(built.inputs),
            output_names=[built.output],
            verbose=False,
        )
    assert program is not None
    graph: onnx.ModelProto = program.model_proto
    del graph.graph.value_info[:]
    for one, names in zip(graph.graph.input, built.axes, strict=True):
        for axis, name in enumerate(names):
            one.type.tensor_type.shape.dim[axis].dim_param = name
    for axis, name in enumerate(built.output_axes):
        graph.graph.output[0].type.tensor_type.shape.dim[axis].dim_param = name
    return graph


@contextmanager
def _without_logs() -> Iterator[None]:
    """The exporter tells of packages that it could use if they were there."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _read_columns(graph: onnx.ModelProto, subject: Subject) -> None:
    """Put what prepares a table before the network: inputs by the names of its columns."""
    from onnx import TensorProto, compose, helper, numpy_helper

    from pellucid.data.prepare.examples import FARTHEST
    from pellucid.data.prepare.named_numbers import value_name

    table, output = subject.table, graph.graph.output[0].name
    inside = compose.add_prefix(graph, "network/")
    graph.CopyFrom(inside)
    nodes: list[Any] = []
    values: list[Any] = []

    def add(kind: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def constant(name: str, array: np.ndarray[Any, Any]) -> str:
        values.append(numpy_helper.from_array(array, f"prepare/{name}"))
        return f"prepare/{name}"

    axis = constant("axis", np.array([1], dtype=np.int64))
    wide = [add("Unsqueeze", [one.name, axis], f"prepare/wide {one.name}") for one in table.numeric]
    if wide:
        raw = add("Concat", wide, "prepare/raw", axis=1)
        is_missing = add("IsNaN", [raw], "prepare/is missing")
        half, two = constant("half", np.array(0.5)), constant("two", np.array(2.0))
        means = constant("means", np.array([one.mean / 2 for one in table.numeric]))
        deviations = constant("deviations", np.array([one.deviation for one in table.numeric]))
        centred = add("Sub", [add("Mul", [raw, half], "prepare/half of it"), means], "prepare/centred")
        scaled = add("Mul", [add("Div", [centred, deviations], "prepare/scaled"), two], "prepare/far")
        nothing = constant("nothing", np.array(0.0))
        filled = add("Where", [is_missing, nothing, scaled], "prepare/filled")
        ends = [constant("least", np.array(-FARTHEST)), constant("most", np.array(FARTHEST))]
        near = add("Clip", [filled, *ends], "prepare/near")
        parts = [add("Cast", [near], "prepare/numbers alone", to=TensorProto.FLOAT)]
        if any(one.has_gaps for one in table.numeric):
            at = np.array([place for place, one in enumerate(table.numeric) if one.has_gaps], dtype=np.int64)
            gaps = add("Gather", [is_missing, constant("with gaps", at)], "prepare/gaps", axis=1)
            parts.append(add("Cast", [gaps], "prepare/gaps as numbers", to=TensorProto.FLOAT))
        add("Concat", parts, "network/numbers", axis=1)
    coded = []
    named = {value_name(one): one for one in table.named}
    for one in table.categories:
        codes = list(range(1, len(one.values) + 1))
        encoder: dict[str, Any] = {"values_int64s": codes, "default_int64": 0, "domain": "ai.onnx.ml"}
        if one.name in named:
            source = named[one.name]
            gap = add("IsNaN", [source], f"prepare/gap {source}")
            never = constant(f"never {source}", np.array(NEVER))
            whole = add("Where", [gap, never, source], f"prepare/whole {source}")
            key = add("Cast", [whole], f"prepare/key {source}", to=TensorProto.INT64)
            keys = [int(value) for value in one.values]
            code = add("LabelEncoder", [key], f"prepare/code {one.name}", keys_int64s=keys, **encoder)
        else:
            keys_strings = list(one.values)
            code = add("LabelEncoder", [one.name], f"prepare/code {one.name}", keys_strings=keys_strings, **encoder)
        coded.append(add("Unsqueeze", [code, axis], f"prepare/codes {one.name}"))
    if coded:
        add("Concat", coded, "network/codes", axis=1)
    strings = [one.name for one in table.categories if one.name not in named]
    taken = [(one.name, TensorProto.DOUBLE) for one in table.numeric] + [(name, TensorProto.STRING) for name in strings]
    if output in dict(taken) or any(name.startswith(("prepare/", "network/")) for name, _ in taken):
        raise PellucidError(
            f"a column is called as the graph's own parts are, {output} or one that begins with prepare/ or network/",
            fix="Rename it and train again",
        )
    core = list(graph.graph.node)
    del graph.graph.node[:]
    last = add("Identity", [f"network/{output}"], output)
    graph.graph.node.extend([*nodes[:-1], *core, nodes[-1]])
    graph.graph.initializer.extend(values)
    del graph.graph.input[:]
    graph.graph.input.extend([helper.make_tensor_value_info(name, kind, ["batch"]) for name, kind in taken])
    graph.graph.output[0].name = last
    if not any(one.domain == "ai.onnx.ml" for one in graph.opset_import):
        graph.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))


def check(subject: Subject, folder: Path) -> ExportCheck:
    """Run the graph with ONNX Runtime beside the network."""
    import onnxruntime
    import torch

    from pellucid.export.subject import ALLOWED, N_INPUTS, largest_difference

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / FILE, settings, providers=["CPUExecutionProvider"])
    found = 0.0
    for feed, wanted in _feeds(subject):
        (got,) = session.run(None, feed)
        found = max(found, largest_difference(torch.from_numpy(np.asarray(got)), wanted))
    return ExportCheck(f"ONNX Runtime {onnxruntime.__version__}", N_INPUTS, found, ALLOWED)


def _feeds(subject: Subject) -> Iterator[tuple[dict[str, Any], Any]]:
    """What the graph is given, by the names of its inputs, and what should come out."""
    import torch

    from pellucid.export.onnx_graphs import answer_of

    if subject.kind in ("list", "text", "pairs"):
        names = ("sources", "tokens") if subject.kind == "pairs" else ("tokens",)
        for batch, wanted in subject.answers():
            yield dict(zip(names, (one.numpy() for one in batch), strict=True)), wanted
        return
    with torch.inference_mode():
        for raw, numbers, codes in _raw_tables(subject) if subject.kind == "table" else _raw_images(subject):
            scores = subject.original(torch.from_numpy(numbers), torch.from_numpy(codes))
            yield raw, answer_of(subject)(scores)


def _raw_images(subject: Subject) -> Iterator[tuple[dict[str, Any], Any, Any]]:
    from pellucid.export.subject import AT_ONCE, N_INPUTS, SEED

    draw, images = np.random.default_rng(SEED), subject.images
    shape = (AT_ONCE, images.size[1], images.size[0]) + ((3,) if images.mode == "rgb" else ())
    for _ in range(N_INPUTS // AT_ONCE):
        pixels = draw.integers(0, 256, shape).astype(np.uint8)
        yield {"pixels": pixels}, images.read(pixels), np.zeros((AT_ONCE, 0), dtype=np.int64)


def _raw_tables(subject: Subject) -> Iterator[tuple[dict[str, Any], Any, Any]]:
    """Rows as a user has them, with missing cells and strange categories, and what the network's own reading makes."""
    from pellucid.data.prepare.examples import standardise
    from pellucid.data.prepare.named_numbers import value_name
    from pellucid.export.subject import AT_ONCE, N_INPUTS, SEED

    draw, table = np.random.default_rng(SEED), subject.table
    by_name = {one.name: one for one in table.categories}
    named = {value_name(one) for one in table.named}
    for _ in range(N_INPUTS // AT_ONCE):
        raw: dict[str, Any] = {}
        for one in table.numeric:
            values = one.mean + one.deviation * draw.standard_normal(AT_ONCE)
            if one.name in table.named:
                values = draw.choice([float(value) for value in by_name[value_name(one.name)].values], AT_ONCE)
            raw[one.name] = np.where(draw.random(AT_ONCE) < 0.1, np.nan, values)
        cells = {}
        for column in table.categories:
            if column.name in named:
                source = raw[column.name.removesuffix(" (value)")]
                cells[column.name] = [None if np.isnan(value) else str(int(value)) for value in source]
            else:
                choices = [*column.values, "", STRANGE]
                cells[column.name] = [choices[draw.integers(len(choices))] for _ in range(AT_ONCE)]
                raw[column.name] = np.array(cells[column.name], dtype=object)
        numbers = [standardise(raw[one.name], one.mean, one.deviation) for one in table.numeric]
        numbers += [np.isnan(raw[one.name]) for one in table.numeric if one.has_gaps]
        codes = [one.encode(cells[one.name])[0] for one in table.categories]
        yield (
            raw,
            np.stack(numbers, axis=1).astype(np.float32) if numbers else np.zeros((AT_ONCE, 0), np.float32),
            np.stack(codes, axis=1) if codes else np.zeros((AT_ONCE, 0), np.int64),
        )


def use(subject: Subject, folder: Path) -> tuple[str, ...]:
    return (
        "import numpy",
        "import onnxruntime",
        f'session = onnxruntime.InferenceSession("{folder / FILE}")',
        *_example_of_use(subject),
        "print(session.run(None, given)[0])",
    )


def _example_of_use(subject: Subject) -> tuple[str, ...]:
    """Lines that make one input of the graph, `given`."""
    if subject.kind in ("list", "text"):
        tokens = list(range(min(3, subject.longest, len(subject.vocabulary))))
        shown = " ".join(repr(subject.vocabulary.tokens[token]) for token in tokens)
        return (f'given = {{"tokens": numpy.array([{tokens}])}}  # {shown}',)
    if subject.kind == "pairs":
        return (
            'given = {"sources": numpy.array([[1]]), "tokens": numpy.array([[0]])}  # the first symbol, and a start',
        )
    if subject.kind == "images":
        shape = (1, subject.images.size[1], subject.images.size[0]) + ((3,) if subject.images.mode == "rgb" else ())
        return (f'given = {{"pixels": numpy.zeros({shape}, numpy.uint8)}}  # one black image',)
    table = subject.table
    known = (
        f"{table.numeric[0].name!r}][0] = {table.numeric[0].mean:.6g}"
        if table.numeric
        else f"{table.categories[0].name!r}][0] = {table.categories[0].values[0]!r}"
    )
    return (
        'missing = {"tensor(string)": numpy.array([""], object), "tensor(double)": numpy.array([numpy.nan])}',
        "given = {column.name: missing[column.type].copy() for column in session.get_inputs()}  # a row, cells missing",
        f"given[{known}",
    )
