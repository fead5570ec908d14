"""Parallel steps: how many products have to wait for one another in training and in generation, and the time they take.

In training all tokens of a sequence are known, in generation each is known only when the one before it was chosen. What
can run in parallel is what need not wait: every operation that torch dispatches is followed, and the longest chain of
products of matrices, each of which needs the one before, is counted at three lengths. A network whose chain does not
grow with the length runs in parallel over the tokens. How long a pass takes is measured beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning
from pellucid.figures.charts.svg import BLUE, INK, LINE, ORANGE, QUIET, line_style, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of
from pellucid.lessons.lesson import Lesson
from pellucid.models.settings import require_share
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from pellucid.models.contracts import PairModel, SequenceModel

VOCABULARY = 27
REPEATS = 5  # of a pass that is timed; the fastest counts, which other programs disturbed least
# Of the table: where the columns begin, and how far its lines are apart.
NAME, TRAINING, GENERATION, LINE_HEIGHT = 0.0, 330.0, 640.0, 30.0
WIDTH, HEIGHT, BETWEEN, RIGHT = 320.0, 260.0, 150.0, 120.0


@dataclass(frozen=True)
class ParallelKnobs:
    length: int = option(128, "Tokens of the longest sequence; also a half and a quarter.", minimum=4, maximum=2048)
    width: int = option(64, "Width of every network; an even number.", minimum=2, maximum=1024)
    depth: int = option(1, "Layers or blocks of every network.", minimum=1, maximum=32)
    batch: int = option(1, "Sequences of a batch whose time is measured.", minimum=1, maximum=1024)

    def __post_init__(self) -> None:
        check_options(self)
        require_share("width", self.width, 2, of="directions")


class TokenPass(NamedTuple):
    """One pass over a sequence of this length."""

    length: int
    products: int  # in the longest chain of those that wait for one another
    seconds: float  # of a batch: in training forward and back, in generation to the last token


class NetworkPasses(NamedTuple):
    """A network in training and in generation, at each of the lengths."""

    name: str
    kind: str  # of data that it reads: list or pairs
    training: tuple[TokenPass, ...]
    generation: tuple[TokenPass, ...]


class ParallelStudy(NamedTuple):
    """Networks of one width and depth, side by side."""

    width: int
    depth: int
    batch: int
    networks: tuple[NetworkPasses, ...]


def measure(knobs: ParallelKnobs) -> ParallelStudy:
    """Recurrent networks and transformers, for language and for pairs of a source and a target of the same length."""
    from pellucid.training.rng import seed_torch

    lengths = [knobs.length // 4, knobs.length // 2, knobs.length]
    found = []
    with seed_torch(0, 0, "parallel steps"):
        for name, kind, card_name, settings in _networks():
            model = _build(card_name, kind, settings, knobs)
            passes: dict[str, list[TokenPass]] = {"training": [], "generation": []}
            for length in lengths:
                for way, run in (("training", read_sequence), ("generation", write_greedily)):
                    # In double precision torch computes recurrent layers step by step, and each step is seen.
                    products = longest_chain(partial(run, model.double(), 1, length))
                    seconds = _seconds(partial(run, model.float(), knobs.batch, length), is_training=way == "training")
                    passes[way].append(TokenPass(length, products, seconds))
            found.append(NetworkPasses(name, kind, tuple(passes["training"]), tuple(passes["generation"])))
    return ParallelStudy(knobs.width, knobs.depth, knobs.batch, tuple(found))


def _networks() -> list[tuple[str, str, str, dict[str, Any]]]:
    """What is compared: its name here, the kind of data, its name in the catalogue, and its settings."""
    return [
        ("RNN", "list", "rnn", {}),
        ("LSTM", "list", "lstm", {}),
        ("transformer", "list", "transformer", {"n_heads": 1, "positions": "none"}),
        ("RNN encoder-decoder", "pairs", "rnn-encoder-decoder", {"cell": "lstm", "attention": "none"}),
        ("the same with attention", "pairs", "rnn-encoder-decoder", {"cell": "lstm", "attention": "additive"}),
        ("transformer encoder-decoder", "pairs", "encoder-decoder", {"n_heads": 1, "positions": "none"}),
        ("decoder-only transformer", "pairs", "transformer", {"n_heads": 1, "positions": "none"}),
        ("encoder without a decoder", "pairs", "encoder", {"n_heads": 1, "positions": "none"}),
    ]


def _build(name: str, kind: str, settings: dict[str, Any], knobs: ParallelKnobs) -> Any:
    from pellucid.models.catalogue import find_network

    card = find_network(name, kind)
    shape: dict[str, int] = {"vocab_size": VOCABULARY, "width": knobs.width, "depth": knobs.depth}
    if kind == "pairs":
        shape |= {"longest_source": knobs.length, "longest_target": knobs.length}
    elif "context" in card.config.__dataclass_fields__:
        shape["context"] = knobs.length
    return card.build(card.config(**shape, **settings)).eval()


def read_sequence(model: SequenceModel | PairModel, batch: int, length: int) -> Any:
    """The loss of training: every token is known, and all are scored in one pass."""
    import torch
    from torch.nn import functional

    from pellucid.models.contracts import PairModel

    tokens = torch.randint(1, VOCABULARY, (batch, length))
    scores = model(tokens, tokens) if isinstance(model, PairModel) else model(tokens)
    return functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())


def write_greedily(model: SequenceModel | PairModel, batch: int, length: int) -> Any:
    """So many tokens, each the likeliest after those that were chosen before it; of pairs the source is read first."""
    import torch

    from pellucid.models.contracts import PairModel

    with torch.no_grad():  # in torch's inference mode a recurrent layer would be seen as one operation
        if isinstance(model, PairModel):
            state = model.begin(torch.randint(1, VOCABULARY, (batch, length)))
        else:
            state = model.begin(batch)
        tokens = torch.zeros(batch, dtype=torch.int64)
        for _ in range(length):
            scores, state = model.advance(tokens, state)
            tokens = scores.argmax(-1)
    return tokens


def longest_chain(run: Callable[[], object]) -> int:
    """How many products of matrices wait for one another while this runs, attention written out in its two.

    >>> import torch
    >>> a = torch.eye(2)
    >>> longest_chain(lambda: (a @ a) @ (a @ a)), longest_chain(lambda: ((a @ a) @ a) @ a)
    (2, 3)
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from pellucid.inspection.instrument.nests import tensors_in
    from pellucid.inspection.instrument.recording import InterceptOperators
    from pellucid.inspection.table.flops import RULES, short_name
    from pellucid.inspection.table.trace import address

    waited: dict[int, int] = {}  # by the memory of a tensor: what is written into a part of it, as a cache, counts too
    alive: list[torch.Tensor] = []  # or memory that is used again would seem to have waited

    def see(operator: Any, args: tuple[Any, ...], named: dict[str, Any], made: Any) -> None:
        before = max([waited.get(address(tensor), 0) for tensor in tensors_in((args, named))], default=0)
        after = before + (short_name(operator) in RULES)
        for tensor in tensors_in(made):
            place = address(tensor)
            waited[place] = max(waited.get(place, 0), after)
            alive.append(tensor)

    with ExitStack() as inside:
        inside.enter_context(torch.no_grad())
        inside.enter_context(sdpa_kernel(SDPBackend.MATH))
        inside.enter_context(InterceptOperators(see))
        run()
    return max(waited.values(), default=0)


def _seconds(run: Callable[[], Any], *, is_training: bool) -> float:
    """The fastest of a few passes on one thread; in training forward and back."""
    import time

    import torch

    taken = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(REPEATS):
            began = time.perf_counter()
            made = run()
            if is_training:
                made.backward()
            taken.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
    return min(taken)


def growth_of(passes: tuple[TokenPass, ...]) -> float:
    """How many products more each token makes the chain, from the shortest length to the longest."""
    first, last = passes[0], passes[-1]
    return (last.products - first.products) / (last.length - first.length)


def draw(record: ParallelStudy) -> Picture:
    """A table of the chains; below it how long the networks for language take, in training and in generation."""
    marks = _table_marks(record)
    top = LINE_HEIGHT * (len(record.networks) + 2) + 30
    for i, (way, heading) in enumerate((("training", "a step of training"), ("generation", "generation"))):
        panel = _time_panel(record, way)
        left = i * (LEFT + WIDTH + BETWEEN)
        marks.append(svg_text(left + LEFT, top, heading, INK, is_bold=True, size=19))
        marks += panel.draw(left, top + 20)
    title = "What runs in parallel: products that wait for one another, and time"
    width = 2 * (LEFT + WIDTH) + BETWEEN + RIGHT
    return picture(title, _captions(record), marks, width, top + 20 + HEIGHT + BOTTOM)


def _table_marks(record: ParallelStudy) -> list[str]:
    shortest, longest = record.networks[0].training[0].length, record.networks[0].training[-1].length
    marks = [
        svg_text(NAME, 16, f"products in a row, {shortest:,} → {longest:,} tokens", QUIET),
        svg_text(TRAINING, 16, "training, forward", INK, is_bold=True),
        svg_text(GENERATION, 16, "generation", INK, is_bold=True),
        f'<path d="M0 26H{GENERATION + 290:.0f}" stroke="{LINE}"/>',
    ]
    for row, network in enumerate(record.networks):
        y = LINE_HEIGHT * (row + 1) + 18
        marks.append(svg_text(NAME, y, network.name, INK))
        for left, passes in ((TRAINING, network.training), (GENERATION, network.generation)):
            is_parallel = growth_of(passes) == 0
            numbers = f"{passes[0].products:,} → {passes[-1].products:,}"
            verdict = "in parallel" if is_parallel else f"{growth_of(passes):.3g} a token"
            marks.append(svg_text(left, y, numbers, INK))
            marks.append(svg_text(left + 140, y, verdict, BLUE if is_parallel else ORANGE, is_bold=True))
    return marks


def _time_panel(record: ParallelStudy, way: str) -> Panel:
    shown = [network for network in record.networks if network.kind == "list"]
    passes = [one for network in shown for one in getattr(network, way)]
    panel = Panel(
        axis_spanning([one.length for one in passes], "tokens", is_log=True, margin=0.02),
        axis_spanning([1e3 * one.seconds for one in passes], "milliseconds", is_log=True),
        WIDTH,
        HEIGHT,
    )
    labels = []
    for i, network in enumerate(shown):
        colour, dash = line_style(i)
        points = [(one.length, 1e3 * one.seconds) for one in getattr(network, way)]
        panel.line(points, colour, dash=dash, says=network.name)
        for x, y in points:
            panel.dot(x, y, colour, size=4, says=f"{network.name}, {x:,} tokens: {y:.3g} ms")
        labels.append((points[-1][1], network.name, colour))
    panel.ends(labels)
    return panel


def _captions(record: ParallelStudy) -> list[str]:
    said = [
        f"{count_of(record.depth, 'layer')}, width {record.width}; times of a batch of {record.batch} on one thread. "
        "In generation a token is chosen before the next is asked for."
    ]
    for way in ("training", "generation"):
        names = [network.name for network in record.networks if growth_of(getattr(network, way)) == 0]
        others = f"In the other {len(record.networks) - len(names)} each waits for the last."
        said.append(
            f"In {way} all tokens can run at once in: {', '.join(names)}. {others}"
            if names
            else f"In {way} tokens wait for one another in every network."
        )
    shown = [network for network in record.networks if network.kind == "list"]
    for way, words in (("training", "A step of training"), ("generation", "Generation")):
        length = shown[0].training[-1].length
        times = [f"{network.name} {1e3 * getattr(network, way)[-1].seconds:.3g} ms" for network in shown]
        said.append(f"{words} on {length:,} tokens: {', '.join(times)}.")
    return said


LESSON = Lesson(
    name="parallel-steps",
    summary="Which networks run in parallel over tokens in training and in generation: products in a row, and time.",
    measure=measure,
    draw=draw,
    knobs=ParallelKnobs,
)
