"""Streaming: attention over frames of sound while they come, with a cache; what looking ahead earns, and what it costs.

A small recogniser (`models/sequences/frame_recogniser.py`) is trained to tell which tone sounds in each frame of noisy
recordings (`data/sets/tones.py`). In each step its look-ahead is another one, so that one network can be asked with
any.

Tones follow a Markov chain and each frame's powers are known functions of chance, so the best that any recogniser can
do is known too: the posterior of a frame's tone given all frames up to L after it, by the forward and the backward
recursion. In a band without a tone the power P is exponential with mean s² = samples · noise²; with the tone, whose
transform has the size A = samples / 2, the likelihood is larger by exp(-A²/s²) · I₀(2A√P / s²).
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.figures.charts.matrix import difference
from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel, axis_spanning
from pellucid.figures.charts.svg import (
    BLUE,
    COLOURS,
    INK,
    ORANGE,
    PAPER,
    QUIET,
    move_marks,
    pixel_grid,
    shade,
    svg_text,
)
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import percent
from pellucid.lessons.lesson import Lesson, seed_knob, train_by_adamw
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy
    from torch import Tensor

    from pellucid.data.sets.tones import Recordings
    from pellucid.models.sequences.frame_recogniser import FrameRecogniser

N_TONES, LASTING, FRAMES = 6, 6, 48  # of a recording
N_TRAIN, N_TEST, BATCH, LEARNING_RATE = 600, 300, 32, 2e-2
WIDTH_OF_NETWORK, HEADS, DEPTH = 32, 4, 2
LONGEST_STREAM, TIMED, REPEATS = 400, (25, 50, 100, 200, 400), 5
SHOWN = 48  # frames of the first test recording
CELL, STRIP = 14.0, 20.0
PANEL_WIDTH, HEIGHT, GAP, RIGHT = 350.0, 280.0, 10.0, 130.0


class LookAheadResult(NamedTuple):
    """What one look-ahead, in frames, earns on recordings that were not trained on."""

    look_ahead: int
    accuracy: float  # share of frames whose tone is told
    best: float  # of whoever knows how the recordings are made
    off_by: float  # the largest difference between logits with the cache and of the whole recording at once


class FrameCost(NamedTuple):
    """What the next frame costs when so many were heard."""

    n_heard: int
    cached_flops: int
    whole_flops: int  # without a cache: all frames once more


class FrameTiming(NamedTuple):
    """The same in milliseconds, the median of several, on this machine and one thread."""

    n_heard: int
    cached_ms: float
    whole_ms: float


class ShownRecording(NamedTuple):
    """One recording: what was heard, what was played, and what was told."""

    decibels: tuple[tuple[float, ...], ...]  # (frames, tones)
    played: tuple[int, ...]
    told: tuple[tuple[int, ...], ...]  # for each look-ahead


class StreamingStudy(NamedTuple):
    """A causal recogniser of tones: what look-ahead earns, and what frames cost with and without a cache."""

    source: str
    noise: float
    context: int
    frame_ms: float
    n_judged: int  # frames
    loudest: float  # share of frames whose loudest band is their tone: what one frame alone tells
    parameters: int
    results: tuple[LookAheadResult, ...]
    costs: tuple[FrameCost, ...]
    shown: ShownRecording
    timings: tuple[FrameTiming, ...]


@dataclass(frozen=True)
class StreamingKnobs:
    seed: int = seed_knob()
    look_ahead: tuple[float, ...] = option(
        (0, 1, 2, 4, 8), "Frames past its own that the recogniser waits for.", minimum=0, maximum=16, example="0,2,8"
    )
    context: int = option(16, "Frames before its own that each block sees.", minimum=1, maximum=64)
    noise: float = option(1.5, "Deviation of the noise, beside sines of amplitude 1.", minimum=0.1, maximum=10)
    steps: int = option(300, "Training steps.", minimum=1, maximum=10_000)

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: StreamingKnobs) -> StreamingStudy:
    """One recogniser, trained with every look-ahead in turn, then asked with each."""
    import torch

    from pellucid.data.sets.tones import FRAME_SECONDS, record_tones

    look_aheads = sorted({int(frames) for frames in knobs.look_ahead})
    train, test = (
        record_tones(2 * knobs.seed + side, n, FRAMES, N_TONES, LASTING, knobs.noise)
        for side, n in enumerate((N_TRAIN, N_TEST))
    )
    recogniser = train_recogniser(train, look_aheads, knobs)
    frames = as_frames(test)
    results, told = [], []
    # Compared on frames that have all their context and look-ahead, the same for every look-ahead.
    judged = slice(min(knobs.context, FRAMES // 2), FRAMES - look_aheads[-1])
    played = torch.from_numpy(test.tones)
    exact = copy.deepcopy(recogniser).double()  # so that nothing but another way of computing can differ
    with torch.no_grad():
        for look_ahead, best in zip(look_aheads, best_guesses(test, look_aheads, knobs.noise), strict=True):
            whole = recogniser(frames, look_ahead)
            results.append(
                LookAheadResult(
                    look_ahead,
                    accuracy=float((whole.argmax(-1) == played)[:, judged].double().mean()),
                    best=float((best == test.tones)[:, judged].mean()),
                    off_by=_compare_streamed(exact, frames[:8].double(), look_ahead),
                )
            )
            told.append(tuple(whole[0, :SHOWN].argmax(-1).tolist()))
    return StreamingStudy(
        source=f"{N_TRAIN} recordings of {FRAMES} frames to learn from, {N_TEST} others to be judged by, "
        f"seed {knobs.seed}",
        noise=knobs.noise,
        context=knobs.context,
        frame_ms=1000 * FRAME_SECONDS,
        n_judged=played[:, judged].numel(),
        loudest=float((test.features.argmax(-1) == test.tones)[:, judged].mean()),
        parameters=sum(parameter.numel() for parameter in recogniser.parameters()),
        results=tuple(results),
        costs=tuple(count_frame(recogniser, n) for n in TIMED),
        shown=ShownRecording(
            tuple(map(tuple, test.features[0, :SHOWN].round(2).tolist())),
            tuple(test.tones[0, :SHOWN].tolist()),
            tuple(told),
        ),
        timings=time_frames(recogniser),
    )


def as_frames(heard: Recordings) -> Tensor:
    """Decibels as a network reads them, near mean 0 and deviation 1: (n, frames, tones)."""
    import torch

    return torch.from_numpy((heard.features - 17) / 6).float()


def train_recogniser(train: Recordings, look_aheads: Sequence[int], knobs: StreamingKnobs) -> FrameRecogniser:
    """AdamW with a warm-up and a decay of its rate; each step has the next look-ahead."""
    import torch
    from torch.nn import functional

    from pellucid.models.sequences.frame_recogniser import FrameRecogniser
    from pellucid.training.rng import numpy_rng, seed_torch

    with seed_torch(knobs.seed, 0, "weights"):
        recogniser = FrameRecogniser(
            features=N_TONES,
            classes=N_TONES,
            context=knobs.context,
            width=WIDTH_OF_NETWORK,
            n_heads=HEADS,
            depth=DEPTH,
        )
    frames, tones = as_frames(train), torch.from_numpy(train.tones)

    def loss_of(step: int) -> Tensor:
        rows = numpy_rng(knobs.seed, step, "batch").integers(0, N_TRAIN, BATCH)
        logits = recogniser(frames[rows], look_aheads[step % len(look_aheads)])
        return functional.cross_entropy(logits.flatten(0, 1), tones[rows].flatten())

    train_by_adamw(recogniser, loss_of, LEARNING_RATE, knobs.steps)
    return recogniser.eval()


def stream_frames(recogniser: FrameRecogniser, frames: Tensor, look_ahead: int) -> Tensor:
    """The logits of all frames, (n, frames, classes), as they come one by one."""
    import torch

    stream = recogniser.begin(len(frames), look_ahead)
    told: list[Tensor] = []
    with torch.no_grad():
        for frame in frames.unbind(1):
            told += recogniser.advance(frame, stream)
        told += recogniser.finish(stream)
    return torch.stack(told, dim=1)


def _compare_streamed(recogniser: FrameRecogniser, frames: Tensor, look_ahead: int) -> float:
    """How far logits with the cache are from those of all frames at once, at most."""
    return float((stream_frames(recogniser, frames, look_ahead) - recogniser(frames, look_ahead)).abs().max())


def best_guesses(heard: Recordings, look_aheads: Sequence[int], noise: float) -> list[numpy.ndarray[Any, Any]]:
    """The likeliest tone of each frame given all frames up to so many after it, (n, frames), for each look-ahead."""
    import numpy

    likelihoods = tone_likelihoods(heard.features, noise)
    n, length, n_tones = likelihoods.shape
    change = 1 / LASTING / (n_tones - 1)
    stay = numpy.where(numpy.eye(n_tones), 1 - 1 / LASTING, change)
    before = numpy.full((n, n_tones), 1 / n_tones)
    forward = numpy.empty_like(likelihoods)
    for frame in range(length):
        known = before * likelihoods[:, frame]
        forward[:, frame] = known / known.sum(-1, keepdims=True)
        before = forward[:, frame] @ stay
    guesses = []
    for look_ahead in look_aheads:
        behind = numpy.ones_like(likelihoods)  # what the frames after say of each tone, at first nothing
        for _ in range(look_ahead):
            after = numpy.ones_like(behind)
            after[:, :-1] = (likelihoods * behind)[:, 1:] @ stay.T
            behind = after / after.sum(-1, keepdims=True)
        guesses.append((forward * behind).argmax(-1))
    return guesses


def tone_likelihoods(decibels: numpy.ndarray[Any, Any], noise: float) -> numpy.ndarray[Any, Any]:
    """How likely each frame is under each tone, (n, frames, tones), up to a factor that all tones share."""
    import numpy

    from pellucid.data.sets.tones import SAMPLES

    spread, size = SAMPLES * noise**2, SAMPLES / 2
    reach = 2 * size * numpy.sqrt(10 ** (decibels / 10)) / spread
    logs = _log_bessel(reach)
    found: numpy.ndarray[Any, Any] = numpy.exp(logs - logs.max(-1, keepdims=True))
    return found


def _log_bessel(x: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """ln I₀(x), also where I₀ itself is past all numbers: beyond 700 by the first terms of its expansion."""
    import numpy

    large = numpy.maximum(x, 700.0)
    far = large - 0.5 * numpy.log(2 * numpy.pi * large) + 1 / (8 * large)
    near: numpy.ndarray[Any, Any] = numpy.log(numpy.i0(numpy.minimum(x, 700.0)))
    return numpy.where(x > 700, far, near)


def count_frame(recogniser: FrameRecogniser, n_heard: int) -> FrameCost:
    """Multiplications and additions for the frame after n_heard, by the products that it takes.

    >>> from pellucid.models.sequences.frame_recogniser import FrameRecogniser
    >>> count_frame(FrameRecogniser(features=6, classes=6, context=16), n_heard=100)
    FrameCost(n_heard=100, cached_flops=54272, whole_flops=7653376)
    """
    width, depth = recogniser.embedding.out_features, len(recogniser.blocks)
    ends = 2 * width * (recogniser.embedding.in_features + recogniser.head.out_features)
    dense = 2 * depth * (4 * width * width + 8 * width * width)  # projections, and feed-forward
    cached = ends + dense + 4 * depth * width * min(n_heard + 1, recogniser.context + 1)
    # Attention under a mask is computed whole, also where it is hidden.
    whole = (n_heard + 1) * (ends + dense + 4 * depth * width * (n_heard + 1))
    return FrameCost(n_heard, cached, whole)


def time_frames(recogniser: FrameRecogniser) -> tuple[FrameTiming, ...]:
    """How long the next frame of one stream takes, with the cache and by reading all that was heard once more."""
    import torch

    frames = torch.randn(1, LONGEST_STREAM + REPEATS, recogniser.embedding.in_features)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    stream, found = recogniser.begin(batch=1), []
    try:
        with torch.inference_mode():
            for i in range(LONGEST_STREAM + REPEATS):
                began = time.perf_counter()
                recogniser.advance(frames[:, i], stream)
                found.append(time.perf_counter() - began)
            timings = []
            for n in TIMED:
                whole = []
                for _ in range(REPEATS):
                    began = time.perf_counter()
                    recogniser(frames[:, : n + 1])
                    whole.append(time.perf_counter() - began)
                cached = statistics.median(found[n : n + REPEATS])
                timings.append(FrameTiming(n, 1000 * cached, 1000 * statistics.median(whole)))
    finally:
        torch.set_num_threads(threads)
    return tuple(timings)


def draw(record: StreamingStudy) -> Picture:
    """A recording with what was told of it; accuracy over the look-ahead; what a frame costs."""
    marks, top = _recording(record)
    left = _accuracy_panel(record)
    right = _cost_panel(record)
    marks.append(svg_text(LEFT, top + 30, "What looking ahead earns", INK, is_bold=True, size=19))
    second = LEFT + PANEL_WIDTH + RIGHT + GAP
    marks.append(svg_text(second + LEFT, top + 30, "What the next frame costs", INK, is_bold=True, size=19))
    marks += left.draw(0, top + 50)
    marks += right.draw(second, top + 50)
    title = "A recogniser that listens while frames come"
    width = second + LEFT + PANEL_WIDTH + RIGHT
    return picture(title, _captions(record), marks, width, top + 50 + HEIGHT + BOTTOM)


def _recording(record: StreamingStudy) -> tuple[list[str], float]:
    """The powers of a recording, what was played, and what each look-ahead told of it; and where it ends."""
    shown = record.shown
    numbers = [value for frame in shown.decibels for value in frame]
    low, high = min(numbers), max(numbers)
    n_tones = len(shown.decibels[0])
    bands = [
        [shade((frame[tone] - low) / ((high - low) or 1.0)) for frame in shown.decibels]
        for tone in reversed(range(n_tones))
    ]
    tall = 15.0
    marks = [svg_text(LEFT, 16, "One recording: the power in each band, and the tone", INK, is_bold=True, size=19)]
    marks += move_marks(pixel_grid(bands, CELL, tall), LEFT, 30)
    marks.append(svg_text(LEFT - 8, 30 + tall * n_tones / 2 + 5, "heard", QUIET, align="end"))
    top = 30 + tall * n_tones + 10
    rows = [("played", shown.played)]
    rows += [(f"told after {result.look_ahead}", told) for result, told in zip(record.results, shown.told, strict=True)]
    for name, tones in rows:
        colours = [[COLOURS[tone % len(COLOURS)] for tone in tones]]
        marks += move_marks(pixel_grid(colours, CELL, STRIP - 6), LEFT, top)
        # What was told wrong has a hole.
        for i, (tone, played) in enumerate(zip(tones, shown.played, strict=True)):
            if tone != played:
                marks.append(
                    f'<circle cx="{LEFT + (i + 0.5) * CELL:.1f}" cy="{top + (STRIP - 6) / 2:.1f}" r="3.5" '
                    f'fill="{PAPER}"/>'
                )
        n_wrong = sum([tone != played for tone, played in zip(tones, shown.played, strict=True)])
        words = f"{n_wrong} of {len(tones)} wrong" if name != "played" else ""
        marks.append(svg_text(LEFT - 8, top + 13, name, QUIET, align="end"))
        marks.append(svg_text(LEFT + CELL * len(tones) + 12, top + 13, words, QUIET))
        top += STRIP
    return marks, top + 14


def _accuracy_panel(record: StreamingStudy) -> Panel:
    ahead = [float(result.look_ahead) for result in record.results]
    lines = {
        "best possible": (INK, [result.best for result in record.results]),
        "recogniser": (BLUE, [result.accuracy for result in record.results]),
    }
    values = [100 * value for _, line in lines.values() for value in line] + [100 * record.loudest]
    panel = Panel(
        axis_spanning(ahead, "look-ahead in frames", margin=0.03),
        axis_spanning(values, "frames told right in %", margin=0.08),
        PANEL_WIDTH,
        HEIGHT,
    )
    panel.across(100 * record.loudest)
    labels: list[tuple[float, str, str]] = [(100 * record.loudest, "loudest band", QUIET)]
    for name, (colour, line) in lines.items():
        points = [(x, 100 * y) for x, y in zip(ahead, line, strict=True)]
        panel.line(points, colour, dash="" if colour == BLUE else "7 5", says=name)
        for x, y in points:
            panel.dot(x, y, colour, size=4, says=f"{name}, {x:g} ahead: {y:.2f} %")
        labels.append((points[-1][1], name, colour))
    panel.ends(labels)
    return panel


def _cost_panel(record: StreamingStudy) -> Panel:
    times = [ms for timing in record.timings for ms in (timing.cached_ms, timing.whole_ms)]
    panel = Panel(
        Axis(0.0, 1.04 * max([timing.n_heard for timing in record.timings]), "frames heard before"),
        axis_spanning(times, "milliseconds for a frame", is_log=True),
        PANEL_WIDTH,
        HEIGHT,
    )
    cached = [(float(timing.n_heard), timing.cached_ms) for timing in record.timings]
    whole = [(float(timing.n_heard), timing.whole_ms) for timing in record.timings]
    for name, points, colour in (("with cache", cached, BLUE), ("without", whole, ORANGE)):
        panel.line(points, colour, says=name)
        for x, y in points:
            panel.dot(x, y, colour, size=4, says=f"{name}, {x:g} heard: {y:.3g} ms")
    panel.ends([(cached[-1][1], "with cache", BLUE), (whole[-1][1], "without", ORANGE)])
    return panel


def _captions(record: StreamingStudy) -> list[str]:
    first, last = record.results[0], record.results[-1]
    cost, timing = record.costs[-1], record.timings[-1]
    off = max([result.off_by for result in record.results])
    waits = last.look_ahead * record.frame_ms
    return [
        f"{record.source}; noise {record.noise:g}, {record.context} frames of context, {record.parameters:,} "
        "parameters.",
        f"Of {record.n_judged:,} frames told right with a look-ahead of {first.look_ahead}: {percent(first.accuracy)}, "
        f"where {percent(first.best)} is the best that can be; of {last.look_ahead}: {percent(last.accuracy)}, best "
        f"{percent(last.best)}. The loudest band of each frame alone: {percent(record.loudest)}.",
        f"Latency: a frame is {record.frame_ms:g} ms, so a look-ahead of {last.look_ahead} answers {waits:g} ms after "
        f"a frame was heard, and {timing.cached_ms:.2g} ms of computing later.",
        f"With the cache the logits are those of the whole recording at once (off by {difference(off)} at most). After "
        f"{cost.n_heard} frames the next one takes {cost.cached_flops:,} operations and {timing.cached_ms:.2g} ms with "
        f"it, {cost.whole_flops:,} and {timing.whole_ms:.2g} ms without.",
    ]


LESSON = Lesson(
    name="streaming",
    summary="A causal recogniser of tones: accuracy over look-ahead, latency, and what a frame costs with a cache.",
    measure=measure,
    draw=draw,
    knobs=StreamingKnobs,
)
