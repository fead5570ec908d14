"""Torch alone: model.py with the network's own source, weights.safetensors and sample.py; no pellucid is imported."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pellucid import __version__
from pellucid.records import ExportCheck
from pellucid.runs import Run

if TYPE_CHECKING:
    from pellucid.export.source import Instead
    from pellucid.export.subject import Subject

SCRIPTS = {"list": "sample_sequences", "text": "sample_sequences", "table": "predict_table"}
SCRIPTS |= {"images": "predict_images", "pairs": "answer_pairs"}
WEIGHTS = "weights.safetensors"

HEADER = '''"""{title}

{parameters:,} parameters, from the run {run} of pellucid {version}: {summary}.
The code is that of its network, without what this one leaves unused. It needs torch and safetensors.

    network = load()                       with the weights beside this file
    {call}
"""

from __future__ import annotations

'''

FOOTER = '''

CONFIG = {config}
{constants}

def build() -> nn.Module:
    """The network without its weights."""
    return {build}


def load(folder: str | Path = Path(__file__).parent) -> nn.Module:
    """The network with its weights, ready to answer."""
    network = build()
    network.load_state_dict(load_file(Path(folder) / "weights.safetensors"))
    return network.eval()
'''


# In place of what trains faster than it reads.
FUSED_KERNEL = '''
def attend_rows(projected: Tensor, n_heads: int, angles: Tensor | None, rows: TokenRows | None = None) -> Tensor | None:
    """Training has a faster way for short rows; here torch's own kernel serves all."""
    return None
'''

SQUARED_RELU = '''
def squared_relu(values: Tensor) -> Tensor:
    """0 below 0, and the square above: the activation of So and others (2021, "Primer")."""
    return values.relu().square()
'''

ONE_PROCESS = '''
def _sum_over_processes(tensor: Tensor) -> Tensor:
    """Of one process alone, as here."""
    return tensor
'''


def refuse(run: Run, *, is_network_only: bool) -> None:
    """Every network can be written down."""


def write(subject: Subject, folder: Path) -> None:
    from pellucid.training.tensor_files import to_safetensors

    (folder / "model.py").write_text(model_source(subject), encoding="utf-8")
    (folder / WEIGHTS).write_bytes(to_safetensors(subject.model.state_dict()))
    script = importlib.import_module(f"pellucid.export.scripts.{SCRIPTS[subject.kind]}")
    (folder / "sample.py").write_text(inspect.getsource(script), encoding="utf-8")
    write_reading(subject, folder)
    if subject.kind == "pairs":
        from pellucid.data.pair_vocabularies import pair_vocabulary_from_json

        title, called = "How sources and targets are written.", ("encode", "decode_target")
        _write_source(folder / "vocabulary.py", title, pair_vocabulary_from_json, called=called)
    if subject.kind == "images":
        from pellucid.data.readers import images

        # What becomes of a picture of any size, mode and depth; only those of more than 64 megapixels are not read.
        parts = (images.reduce_while_decoding, images.in_eight_bits, images.over_white, images.fit_size)
        _write_source(folder / "pictures.py", "Image files as the network reads them.", *parts)


def write_reading(subject: Subject, folder: Path) -> None:
    """What says how the network reads: its tokenizer, its vocabulary of pairs, or its preparation."""
    if subject.kind in ("list", "text"):
        from pellucid.export.tokenizer import build_tokenizer

        build_tokenizer(subject.vocabulary).save(str(folder / "tokenizer.json"))
        return
    name = "vocabulary.json" if subject.kind == "pairs" else "preparation.json"
    content = json.dumps(subject.run.read_json(name), ensure_ascii=False, indent=1)
    (folder / name).write_text(content + "\n", encoding="utf-8")


def _write_source(path: Path, title: str, *roots: Any, called: tuple[str, ...] = ()) -> None:
    from pellucid.export.source import gather_source

    source = gather_source(*roots, called=called)
    path.write_text(f'"""{title}"""\n\nfrom __future__ import annotations\n\n{source}', encoding="utf-8")


def model_source(subject: Subject) -> str:
    """model.py: the source of the network and of everything that it is made of."""
    from pellucid.export.source import gather_source
    from pellucid.models.sequences.count_tables import CountTables, OrderSize
    from pellucid.models.sequences.on_counting import OnCounting

    config, instead = subject.config, specialised(subject.config)
    plain = find_plain(subject.model.core)
    network = plain or type(subject.model.core)
    roots: list[Any] = [plain] if plain else [type(config), network]
    built = build = f"{network.__name__}({'**' if plain else ''}CONFIG)"
    if isinstance(subject.model, OnCounting):
        tables: Any = subject.model.counts
        roots += [CountTables, OrderSize, OnCounting]
        orders = "".join(f"            {size!r},\n" for size in tables.orders)
        counts = f"CountTables({tables.vocab_size}, {tables.has_boundary}, (\n{orders}        ))"
        build = f"OnCounting(\n        {built},\n        {counts},\n    )"
        config = dataclasses.replace(config, vocab_size=2 * config.vocab_size + 1)
    is_sequence = subject.kind in ("list", "text")
    header = HEADER.format(
        title=f"{subject.report.rung.name}: {subject.card.summary}.".capitalize(),
        parameters=subject.model.n_parameters,
        run=subject.name,
        version=__version__,
        summary=subject.report.data.description,
        call=_call(subject.kind),
    )
    footer = FOOTER.format(
        config=_settings_text(config, plain) if plain else _config_text(config),
        build=build,
        constants=_constants(subject) if is_sequence else "",
    )
    more = ("from pathlib import Path", "from safetensors.torch import load_file", "from torch import nn")
    return header + gather_source(*roots, instead=instead, more=more) + footer


def _call(kind: str) -> str:
    if kind in ("list", "text"):
        return "network(tokens)                        (batch, time) -> logits (batch, time, vocab)"
    if kind == "pairs":
        return "network(sources, tokens)               -> logits of the targets, (batch, time, vocab)"
    return "network(numbers, codes)                -> scores, (batch, outputs); codes are (batch, 0) for images"


def _constants(subject: Subject) -> str:
    """What begins and ends an item; a text begins after a line break and has no end."""
    from pellucid.training.inference.language_models import TrainedModel

    closing = subject.vocabulary.closing if subject.vocabulary.has_boundary else None
    return f"OPENING, CLOSING = {TrainedModel(subject.run).opening}, {closing}\n"


def _config_text(config: Any) -> str:
    values = [f"    {one.name}={getattr(config, one.name)!r},\n" for one in dataclasses.fields(config)]
    return f"{type(config).__name__}(\n{''.join(values)})"


def _settings_text(config: Any, network: Any) -> str:
    """What a network is built with, where it takes no config."""
    names = inspect.signature(network).parameters
    return "{\n" + "".join(f"    {name!r}: {getattr(config, name)!r},\n" for name in names) + "}"


def find_plain(network: Any) -> Any:
    """A network written out for its settings, with the same weights by the same names; None where there is none."""
    from pellucid.export.plain_transformer import RotaryTransformer
    from pellucid.models.sequences.transformer import Transformer

    is_plain = type(network) is Transformer and (network.config.form, network.config.positions) == ("pre", "rotary")
    return RotaryTransformer if is_plain else None


def specialised(config: Any) -> dict[str, Instead]:
    """Functions whose answer follows from the config, or from nobody training it fast, as the file has them."""
    from pellucid.export.source import Instead
    from pellucid.layers.row_attention import TokenRows

    found = {"attend_rows": Instead(FUSED_KERNEL, (TokenRows,)), "squared_relu": Instead(SQUARED_RELU, ())}
    found["_sum_over_processes"] = Instead(ONE_PROCESS, ())
    if hasattr(config, "positions"):
        found["build_positions"] = _one_encoding(config.positions)
    if hasattr(config, "activation"):
        found["build_activation"] = _one_activation(config.activation)
    if hasattr(config, "norm"):
        found["build_norm"] = _one_norm(config.norm)
    return found


def _one_activation(name: str) -> Instead:
    from pellucid.export.source import Instead
    from pellucid.layers.feed_forward import ACTIVATIONS

    made = getattr(ACTIVATIONS[name], "__name__", name)
    text = f'''
def build_activation(name: str) -> nn.Module:
    """The activation of this network: {name}."""
    return nn.{made}()
'''
    return Instead(text, ())


def _one_norm(kind: str) -> Instead:
    """In place of the function that finds a norm by its name; some layers of a network have none."""
    from pellucid.export.source import Instead
    from pellucid.layers.norms import EPSILON, build_norm

    built = type(build_norm(kind, 2, 1))
    given = {"batch": "features", "layer": f"features, eps={EPSILON!r}", "rms": "features"}
    made = f"{'nn.' if kind == 'layer' else ''}{built.__name__}({given.get(kind, 'features, groups')})"
    text = f'''
def build_norm(kind: str, features: int, groups: int) -> nn.Module:
    """The norm of this network's hidden layers: {kind}."""
    return {"nn.Identity()" if kind == "none" else f'nn.Identity() if kind == "none" else {made}'}
'''
    return Instead(text, (built,) if kind not in ("none", "layer") else ())


def _one_encoding(name: str) -> Instead:
    """In place of the function that finds an encoding by its name: it is known which."""
    from pellucid.export.source import Instead
    from pellucid.layers.positions import ENCODINGS

    module, _, encoding = ENCODINGS[name].partition(":")
    text = f'''
def build_positions(
    name: str, *, length: int, width: int, n_heads: int, is_causal: bool, rotary_base: float = 10_000.0
) -> nn.Module:
    """The position encoding of this network: {name}."""
    return {encoding}.for_attention(
        length=length, width=width, n_heads=n_heads, is_causal=is_causal, rotary_base=rotary_base
    )
'''
    return Instead(text, (getattr(importlib.import_module(module), encoding),))


def check(subject: Subject, folder: Path) -> ExportCheck:
    """Load model.py as a stranger would, and compare."""
    import torch

    from pellucid.export.subject import ALLOWED, N_INPUTS, largest_difference

    with imported_alone(folder / "model.py") as written:
        network = written.load(folder)
        found = 0.0
        with torch.inference_mode():
            for batch, wanted in subject.answers():
                found = max(found, largest_difference(network(*batch), wanted))
    return ExportCheck(f"torch {torch.__version__}", N_INPUTS, found, ALLOWED)


@contextmanager
def imported_alone(path: Path) -> Iterator[ModuleType]:
    """A file as a module that nobody else sees, with nothing written beside it."""
    name = f"exported_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    wrote, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.modules[name] = module  # dataclasses look there
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.dont_write_bytecode = wrote
        del sys.modules[name]


def use(subject: Subject, folder: Path) -> tuple[str, ...]:
    what = {"list": "", "text": "", "table": " new.csv", "images": " image.png", "pairs": " SOURCE"}[subject.kind]
    return (f"python {folder}/sample.py{what}",)
