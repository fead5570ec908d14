"""Networks as modules that torch.onnx.export can follow: what stands around each, and recurrent cells as ONNX has them.

torch.export unrolls the steps of a plain RNN and cannot follow rows that are packed by their lengths. ONNX has both as
operators of its own, so that these are written down directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.export.subject import Subject
from pellucid.layers.losses import find_example_loss
from pellucid.models.contracts import Network, Reconstructor
from pellucid.models.pairs.padding import lengths_of
from pellucid.models.pairs.rnn_encoder_decoder import RNNDecoderState, RNNEncoderDecoder, join_directions
from pellucid.models.sequences.recurrent import RecurrentModel

# How torch orders the gates, and how ONNX does.
GATES: dict[type, tuple[str, tuple[int, ...]]] = {
    nn.RNN: ("RNN", (0,)),
    nn.GRU: ("GRU", (1, 0, 2)),  # reset, update, new -> update, reset, new
    nn.LSTM: ("LSTM", (0, 3, 1, 2)),  # input, forget, cell, output -> input, output, forget, cell
}


class Graph(NamedTuple):
    """A module to export: an example of its inputs, their names, and the names of the axes that may be of any size."""

    module: nn.Module
    example: tuple[Tensor, ...]
    inputs: tuple[str, ...]
    axes: tuple[tuple[str, ...], ...]
    output: str
    output_axes: tuple[str, ...]


def build_graph(subject: Subject) -> Graph:
    """The network of a run with what stands around it."""
    model: Any = subject.model.for_inference()
    # An axis of size 1 in the example would be taken for one that is always 1, unless no other size is possible.
    batches = list(subject.inputs())[2:]
    batch = next((one for one in batches if all(axis > 1 for axis in one[-1].shape)), batches[0])
    if subject.kind in ("list", "text"):
        if isinstance(model.core, RecurrentModel):
            cell: Any = GraphCell(model.core.cell)
            model.core.cell = cell
        return Graph(model, batch, ("tokens",), (("batch", "time"),), "logits", ("batch", "time"))
    if subject.kind == "pairs":
        module = RNNPairGraph(model) if isinstance(model, RNNEncoderDecoder) else model
        axes = (("batch", "source"), ("batch", "time"))
        example = (torch.ones(3, min(3, model.longest_source), dtype=torch.long), batch[1][:3])
        return Graph(module, example, ("sources", "tokens"), axes, "logits", ("batch", "time"))
    output = answer_name(subject)
    if subject.kind == "images":
        images = subject.images
        shape = (3, images.size[1], images.size[0]) + ((3,) if images.mode == "rgb" else ())
        pixels = torch.zeros(shape, dtype=torch.uint8)
        return Graph(ImageGraph(model, subject), (pixels,), ("pixels",), (("batch",),), output, ("batch",))
    return _table_graph(model, subject, batch, output)


def answer_name(subject: Subject) -> str:
    """What comes out for tables and images."""
    if isinstance(subject.model, Reconstructor):
        return "reconstruction"
    classes = subject.table.classes if subject.kind == "table" else subject.images.classes
    if not classes:
        return "value"
    return "probabilities" if _probabilities(subject) is not None else "scores"


def _probabilities(subject: Subject) -> Callable[[Tensor], Tensor] | None:
    loss = subject.report.plan.loss
    return find_example_loss(loss, "classification").probabilities


def answer_of(subject: Subject) -> Callable[[Tensor], Tensor]:
    """From the network's scores to what comes out."""
    name = answer_name(subject)
    if name == "value":
        deviation, mean = subject.table.deviation, subject.table.mean
        return lambda scores: scores[:, 0] * deviation + mean
    shares = _probabilities(subject) if name == "probabilities" else None
    return (lambda scores: scores) if shares is None else shares


class ImageGraph(nn.Module):
    """pixels: (batch, height, width[, 3]), 0 to 255 -> the answer; the network's scaling is in it."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, model: Network, subject: Subject) -> None:
        super().__init__()
        self.model, self.answer, self.has_colour = model, answer_of(subject), subject.images.mode == "rgb"
        self.register_buffer("mean", torch.tensor(subject.images.mean).view(-1, 1, 1))
        self.register_buffer("deviation", torch.tensor(subject.images.deviation).view(-1, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        channels = pixels.permute(0, 3, 1, 2) if self.has_colour else pixels[:, None]
        numbers = (channels.float() - self.mean) / self.deviation
        return self.answer(self.model(numbers, pixels.new_zeros(pixels.shape[0], 0, dtype=torch.long)))


class TableGraph(nn.Module):
    """numbers: (batch, features), codes: (batch, columns) -> the answer; one of them may be left out."""

    def __init__(self, model: Network, subject: Subject) -> None:
        super().__init__()
        self.model, self.answer = model, answer_of(subject)
        self.has_numbers, self.has_codes = bool(subject.table.numeric), bool(subject.table.categories)

    def forward(self, first: Tensor, second: Tensor | None = None) -> Tensor:
        n = first.shape[0]
        numbers = first if self.has_numbers else torch.zeros(n, 0)
        codes = second if second is not None else first
        return self.answer(self.model(numbers, codes if self.has_codes else torch.zeros(n, 0, dtype=torch.long)))


def _table_graph(model: Network, subject: Subject, batch: tuple[Tensor, ...], output: str) -> Graph:
    graph = TableGraph(model, subject)
    there = [graph.has_numbers, graph.has_codes]
    names = tuple(name for name, is_there in zip(("numbers", "codes"), there, strict=True) if is_there)
    example = tuple(one for one, is_there in zip(batch, there, strict=True) if is_there)
    return Graph(graph, example, names, (("batch",),) * len(names), output, ("batch",))


class GraphCell(nn.Module):
    """A recurrent cell of torch as operators of ONNX, one for each layer. It can be written down, not run.

    rows: (batch, time, width) -> (batch, time, directions · hidden), and what it carries at the end of each row.
    """

    def __init__(self, cell: nn.RNN | nn.GRU | nn.LSTM) -> None:
        super().__init__()
        self.kind, order = GATES[type(cell)]
        self.hidden, self.depth, self.n_directions = cell.hidden_size, cell.num_layers, 1 + cell.bidirectional
        for layer in range(self.depth):
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                ends = ["", "_reverse"][: self.n_directions]
                found = torch.stack([getattr(cell, f"{name}_l{layer}{end}").detach() for end in ends])
                gates = found.chunk(len(order), dim=1)
                self.register_buffer(f"{name}_{layer}", torch.cat([gates[gate] for gate in order], dim=1))

    def forward(self, rows: Tensor, state: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        batch, time = rows.shape[:2]
        x, carried = rows.transpose(0, 1), []
        settings: dict[str, Any] = {"hidden_size": self.hidden}
        if self.n_directions == 2:
            settings["direction"] = "bidirectional"
        if self.kind == "GRU":
            settings["linear_before_reset"] = 1
        for layer in range(self.depth):
            w, r, bias_in, bias_out = (
                getattr(self, f"{name}_{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            inputs = [x, w, r, torch.cat([bias_in, bias_out], dim=1), lengths]
            if state is not None:
                given = state if isinstance(state, tuple) else (state,)
                ends = slice(layer * self.n_directions, (layer + 1) * self.n_directions)
                inputs += [one[ends] for one in given]
            last = (self.n_directions, batch, self.hidden)
            shapes = [(time, self.n_directions, batch, self.hidden), *[last] * (1 + (self.kind == "LSTM"))]
            found = torch.onnx.ops.symbolic_multi_out(
                self.kind, inputs, settings, dtypes=[torch.float32] * len(shapes), shapes=shapes
            )
            carried.append(found[1:])
            x = found[0].permute(0, 2, 1, 3).reshape(time, batch, self.n_directions * self.hidden)
        parts = tuple(torch.cat(part) for part in zip(*carried, strict=True))
        return x.transpose(0, 1), parts if self.kind == "LSTM" else parts[0]


class RNNPairGraph(nn.Module):
    """An RNN encoder-decoder: each source is read up to its own end, by the lengths that ONNX's operators take."""

    def __init__(self, model: RNNEncoderDecoder) -> None:
        super().__init__()
        self.model: Any = model
        self.encoder: Any = GraphCell(model.encoder)
        decoder: Any = GraphCell(model.decoder)
        self.model.decoder = decoder
        del self.model.encoder

    def forward(self, sources: Tensor, tokens: Tensor) -> Tensor:
        lengths = lengths_of(sources).clamp(min=1)
        memory, last = self.encoder(self.model.embedding(sources), lengths=lengths.to(torch.int32))
        carried = tuple(map(join_directions, last)) if isinstance(last, tuple) else join_directions(last)
        scores: Tensor = self.model._write(tokens, RNNDecoderState(carried, memory, lengths, read=0))[0]
        return scores
