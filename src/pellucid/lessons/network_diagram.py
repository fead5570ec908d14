"""A network as a diagram: what each layer leaves of its input, as boxes, with its shape and its parameters.

The network is an expression of torch.nn's modules. One forward is run, so that every shape is seen and none computed.
Without one it is the small LeNet for gray images of 32 × 32 pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.errors import PellucidError
from pellucid.figures.charts.svg import BLUE, INK, PAPER, QUIET, move_marks, svg_text, text_width, tooltip
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of, cut_end, end_sentence
from pellucid.lessons.lesson import Lesson
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import nn

    from pellucid.records import Inspection

LENET = (
    "nn.Sequential(nn.Conv2d(1, 8, 5), nn.AvgPool2d(4), nn.ReLU(), nn.Conv2d(8, 16, 4, padding=1), nn.AvgPool2d(2), "
    "nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))"
)
LENET_INPUT = "1,1,32,32"
MOST_LAYERS = 60
WRONG = "#b3282d"
TALLEST, SMALLEST, BAR = 132.0, 16.0, 20.0  # of a map's side; the width of a vector's bar
PLANES, APART = 8, 4.0  # channels that are drawn behind one another at most, and how far apart
ARROW, ROW, WIDEST = 118.0, 236.0, 1750.0


@dataclass(frozen=True)
class DiagramKnobs:
    model: str = option(LENET, "Network as an expression of torch.nn's modules.", value_name="EXPRESSION")
    input: str = option(
        "", "Shape of what it reads, batch first; by default one that its first layers take.", value_name="SHAPE"
    )

    def __post_init__(self) -> None:
        check_options(self)


class DiagramLayer(NamedTuple):
    """One layer without parts of its own, and what it puts out."""

    kind: str
    settings: str  # as "8 of 5×5"
    shape: tuple[int, ...]  # of one example; () where it fails
    parameters: int
    fails: bool = False


class NetworkDiagram(NamedTuple):
    """The layers of a network in the order in which they run."""

    name: str
    input_shape: tuple[int, ...]  # of one example
    layers: tuple[DiagramLayer, ...]
    parameters: int  # of the whole
    failure: str = ""  # what is wrong, where it does not run to its end


def measure(knobs: DiagramKnobs) -> NetworkDiagram:
    """Build the network, run it once, and tell what each of its layers left.

    >>> lenet = measure(DiagramKnobs())
    >>> [(layer.kind, layer.shape, layer.parameters) for layer in lenet.layers[:2]], lenet.parameters
    ([('Conv2d', (8, 28, 28), 208), ('AvgPool2d', (8, 7, 7), 0)], 3722)
    """
    from pellucid.figures.words.shapes import failure_sentence
    from pellucid.inspection.expression.modules import build_module
    from pellucid.inspection.expression.syntax import parse_shape
    from pellucid.inspection.inspect import inspect_expression, make_inputs

    built = build_module(knobs.model)
    asked = knobs.input or (LENET_INPUT if knobs.model == LENET else "")
    inputs = make_inputs([parse_shape(asked)], built.module) if asked else ()
    seen = inspect_expression(built, inputs, " ".join(knobs.model.split()))
    if seen.refused_guess is not None or not any(row.n_calls for row in seen.rows):
        raise PellucidError(
            "no input was found that the network takes",
            fix="Give its shape with {input}",
            options={"input": "1,1,32,32"},
        )
    layers = _leaves(seen, built.module)
    if len(layers) > MOST_LAYERS:
        raise PellucidError(
            f"the network has {len(layers)} layers, and {MOST_LAYERS} can be drawn", fix="Draw a part of it"
        )
    return NetworkDiagram(
        name=seen.name,
        input_shape=seen.rows[0].inputs[0].sizes[1:],
        layers=tuple(layers),
        parameters=seen.parameters,
        failure=failure_sentence(seen.failure) if seen.failure else "",
    )


def _leaves(seen: Inspection, model: nn.Module) -> list[DiagramLayer]:
    """The modules that have no parts, as far as they were called."""
    failed = seen.failure.path if seen.failure else None
    layers = []
    for row in seen.rows:
        has_parts = any(
            other.path.startswith(f"{row.path}." if row.path else "") for other in seen.rows if other is not row
        )
        if has_parts or not row.n_calls:
            continue
        module = model.get_submodule(row.path)
        shape = row.outputs[0].sizes[1:] if row.outputs else ()
        layers.append(DiagramLayer(row.kind, settings_words(module), shape, row.parameters, row.path == failed))
    return layers


def settings_words(module: nn.Module) -> str:
    """What a layer was built with, in the fewest words.

    >>> from torch import nn
    >>> settings_words(nn.Conv2d(1, 8, 5)), settings_words(nn.AvgPool2d(4)), settings_words(nn.Linear(144, 10))
    ('8 of 5×5', '4×4', '144 to 10')
    >>> settings_words(nn.Conv2d(8, 16, (4, 3), stride=2, padding=1)), settings_words(nn.ReLU())
    ('16 of 4×3, stride 2, padding 1', '')
    """
    from torch import nn

    if isinstance(module, nn.Linear):
        return f"{module.in_features:,} to {module.out_features:,}"
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        stride = [] if set(module.stride) == {1} else [f"stride {_by(module.stride)}"]
        padding = [f"padding {module.padding if isinstance(module.padding, str) else _by(module.padding)}"]
        none = module.padding == "valid" or (not isinstance(module.padding, str) and not any(module.padding))
        window = f"{module.out_channels} of {'×'.join([str(side) for side in module.kernel_size])}"
        return ", ".join([window, *stride, *([] if none else padding)])
    if isinstance(module, nn.AvgPool2d | nn.MaxPool2d | nn.AvgPool1d | nn.MaxPool1d):
        n_sides = 1 if isinstance(module, nn.AvgPool1d | nn.MaxPool1d) else 2
        kernel, step = (
            one if isinstance(one, tuple) else (one,) * n_sides for one in (module.kernel_size, module.stride)
        )
        return "×".join([str(side) for side in kernel]) + (f", stride {_by(step)}" if step != kernel else "")
    if isinstance(module, nn.Dropout):
        return f"p = {module.p:g}"
    return ""


def _by(sizes: object) -> str:
    """
    >>> _by((2, 2)), _by((2, 1)), _by(3)
    ('2', '2×1', '3')
    """
    sides = sizes if isinstance(sizes, tuple) else (sizes,)
    return str(sides[0]) if len(set(sides)) == 1 else "×".join([str(side) for side in sides])


def _size_words(shape: tuple[int, ...]) -> str:
    """Of an image height × width × channels; of anything else its sizes in order.

    >>> _size_words((8, 28, 28)), _size_words((144,)), _size_words((16, 64))
    ('28×28×8', '144', '16×64')
    """
    ordered = (*shape[1:], shape[0]) if len(shape) == 3 else shape
    return "×".join([f"{size:,}" for size in ordered])


class _Box(NamedTuple):
    """What lies between two layers: its shape, the layer that made it, and those that keep its shape."""

    shape: tuple[int, ...]
    made_by: DiagramLayer | None  # None of the input
    then: tuple[str, ...] = ()  # layers without parameters that leave the shape as it is


def _boxes(record: NetworkDiagram) -> list[_Box]:
    boxes = [_Box(record.input_shape, None)]
    for layer in record.layers:
        keeps = layer.shape == boxes[-1].shape and not layer.parameters and not layer.fails
        if keeps:
            boxes[-1] = boxes[-1]._replace(then=(*boxes[-1].then, layer.kind))
        else:
            boxes.append(_Box(layer.shape, layer))
    return boxes


def draw(record: NetworkDiagram) -> Picture:
    """Boxes from left to right, in rows; on each arrow the layer, what it was built with, and its parameters."""
    boxes = _boxes(record)
    largest = max([side for box in boxes if len(box.shape) == 3 for side in box.shape[1:]], default=1)
    pieces = [(box, *_draw_box(box, largest), _arrow_width(box)) for box in boxes]
    total = sum([wide + arrow for _, _, wide, arrow in pieces])
    n_rows = math.ceil(total / WIDEST)
    marks: list[str] = []
    x, y, right = 0.0, 0.0, 0.0
    for box, drawn, wide, arrow in pieces:
        # The rows are about equally long, so that no layer is left alone in the last one.
        if x and x + (arrow + wide) / 2 > total / n_rows:
            x, y = 0.0, y + ROW
        if box.made_by is not None:
            marks += move_marks(_draw_arrow(box.made_by, arrow), x, y + 96)
            x += arrow
        marks += move_marks(drawn, x, y)
        x += wide
        right = max(right, x)
    title = "A network, layer by layer"
    return picture(title, _captions(record), marks, max(right, 600.0), y + ROW)


def _arrow_width(box: _Box) -> float:
    if box.made_by is None:
        return 0.0
    words = (box.made_by.kind, box.made_by.settings, _parameter_words(box.made_by))
    return max(ARROW, *[text_width(word, 15.0) + 44 for word in words])


def _draw_arrow(layer: DiagramLayer, wide: float) -> list[str]:
    """The layer that leads to the next box, above and below a line with a head; red where it fails."""
    colour, middle = (WRONG if layer.fails else INK), wide / 2
    return [
        f'<path d="M12 0H{wide - 14:.1f}M{wide - 22:.1f} -5L{wide - 13:.1f} 0L{wide - 22:.1f} 5" fill="none" '
        f'stroke="{colour if layer.fails else QUIET}" stroke-width="2"/>',
        svg_text(middle, -30, layer.kind, colour, align="middle", is_bold=True, size=15),
        svg_text(middle, -12, layer.settings, QUIET, align="middle", size=14),
        svg_text(middle, 22, _parameter_words(layer), BLUE, align="middle", size=14),
    ]


def _parameter_words(layer: DiagramLayer) -> str:
    return count_of(layer.parameters, "parameter") if layer.parameters else ""


def _draw_box(box: _Box, largest: int) -> tuple[list[str], float]:
    """The marks of a box, and how wide it is with its words."""
    middle = 96.0
    if not box.shape:
        return [svg_text(4, middle + 6, "fails", WRONG, is_bold=True)], 60.0
    words = [_size_words(box.shape), *[f"then {kind}" for kind in box.then]]
    if box.made_by is None:
        words.insert(0, "input")
    if len(box.shape) == 3:
        channels, height, width = box.shape
        tall, across = (max(SMALLEST, TALLEST * math.sqrt(side / largest)) for side in (height, width))
        planes = min(PLANES, channels)
        depth = APART * (planes - 1)
        left = max(0.0, (max(text_width(word, 15.0) for word in words) - across - depth) / 2)
        top = middle - tall / 2 + depth / 2
        marks = [
            f'<rect x="{left + APART * i:.1f}" y="{top - APART * i:.1f}" width="{across:.1f}" height="{tall:.1f}" '
            f'fill="{PAPER}" stroke="{BLUE}" stroke-width="1.5">{tooltip(str(box.shape))}</rect>'
            for i in reversed(range(planes))
        ]
        below, wide = middle + tall / 2 + depth / 2, 2 * left + across + depth
    else:
        tall = SMALLEST + (TALLEST - SMALLEST) * min(1.0, math.log10(1 + math.prod(box.shape)) / 4)
        wide = max(BAR, *[text_width(word, 15.0) for word in words])
        marks = [
            f'<rect x="{(wide - BAR) / 2:.1f}" y="{middle - tall / 2:.1f}" width="{BAR:.1f}" height="{tall:.1f}" '
            f'fill="{PAPER}" stroke="{BLUE}" stroke-width="1.5">{tooltip(str(box.shape))}</rect>'
        ]
        below = middle + tall / 2
    for i, word in enumerate(words):
        is_shape = i == len(words) - 1 - len(box.then)
        marks.append(svg_text(wide / 2, below + 22 + 18 * i, word, INK if is_shape else QUIET, align="middle", size=15))
    return marks, wide


def _captions(record: NetworkDiagram) -> list[str]:
    with_parameters = [layer for layer in record.layers if layer.parameters]
    parts = " + ".join([f"{layer.parameters:,}" for layer in with_parameters[:8]])
    more = f" + {len(with_parameters) - 8} more" if len(with_parameters) > 8 else ""
    total = count_of(record.parameters, "parameter")
    if len(with_parameters) > 1 and not record.failure:
        total = f"{total} = {parts}{more}"
    lines = [
        cut_end(record.name, 160),
        f"{total}. Images are height × width × channels; every shape was seen in one forward pass.",
    ]
    if record.failure:
        return [*lines, end_sentence(record.failure)]
    to = _size_words(record.layers[-1].shape)
    return [*lines, f"From {_size_words(record.input_shape)} to {to} in {count_of(len(record.layers), 'layer')}."]


LESSON = Lesson(
    name="network-diagram",
    summary="Any torch.nn expression as boxes and arrows, with the shape that each layer leaves and its parameters.",
    measure=measure,
    draw=draw,
    knobs=DiagramKnobs,
    argument="model",
)
