"""Tones in noise, frame by frame: what a recogniser hears while it goes on, and which tone was played.

One tone sounds at a time. After each frame it goes on, or with probability 1 / `lasting` another one begins. A frame is
20 ms: 32 samples at 1,600 Hz of a sine of amplitude 1 and of white noise. Its features are the powers of its discrete
Fourier transform at the frequencies that tones can have, in decibels.

No kind of data is made of frames: lists, texts and pairs are symbols, a table's rows have no order, and an image has
one class. So `record_tones` gives the frames themselves, for the lesson on streaming, and as a set of pairs each frame
is the letter of its loudest band, and the target the tones in their order: CCCBCAAB and CAB.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.data.kinds import PairsData
from pellucid.data.sets import SYMBOLS, DatasetCard, generated_pairs, require_count
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    import numpy

RATE, SAMPLES = 1_600, 32  # samples a second, and of a frame
FRAME_SECONDS = SAMPLES / RATE
LOWEST_BIN, MOST_TONES = 2, 12  # tones stand in neighbouring bins of the transform, the first one at 100 Hz
LONGEST_RECORDING = 1_000


class Recordings(NamedTuple):
    """n recordings of equal length."""

    features: numpy.ndarray[Any, Any]  # (n, frames, tones): decibels of each band; float64
    tones: numpy.ndarray[Any, Any]  # (n, frames): which one sounds, from 0


def record_tones(seed: int, n: int, length: int, n_tones: int = 6, lasting: int = 6, noise: float = 1.0) -> Recordings:
    """n recordings of `length` frames. noise: the deviation of each sample, beside a sine of amplitude 1.

    Each recording is drawn from the seed and its own number, so that more of them begin with the same ones.

    >>> heard = record_tones(seed=0, n=1, length=8, lasting=3, noise=0.5)
    >>> heard.tones[0].tolist(), heard.features[0].argmax(-1).tolist()
    ([2, 5, 2, 1, 1, 1, 1, 1], [2, 5, 2, 1, 1, 1, 1, 1])
    """
    import numpy

    require_count(n, "recordings", most=1_000_000)
    for noun, value, least, most in (
        ("tones", n_tones, 2, MOST_TONES),
        ("frames", length, 1, LONGEST_RECORDING),
        ("frames of a tone, in the mean,", lasting, 1, LONGEST_RECORDING),
    ):
        if not least <= value <= most:
            raise PellucidError(f"{value:,} {noun} cannot be recorded", fix=f"Choose {least} to {most:,}")
    if not 0 <= noise <= 1_000:
        raise PellucidError(f"noise of deviation {noise:g} cannot be recorded", fix="Choose 0 to 1,000")
    features, tones = numpy.empty((n, length, n_tones)), numpy.empty((n, length), dtype=numpy.int64)
    bins = numpy.arange(n_tones) + LOWEST_BIN
    for i in range(n):
        draw = numpy.random.default_rng([seed, i])
        steps = numpy.where(draw.random(length) * lasting < 1, draw.integers(1, n_tones, length), 0)
        steps[0] = draw.integers(n_tones)
        tones[i] = numpy.cumsum(steps) % n_tones  # a change goes to each of the others alike
        angles = 2 * numpy.pi * (numpy.arange(SAMPLES) * bins[tones[i]][:, None] / SAMPLES + draw.random((length, 1)))
        wave = numpy.sin(angles) + draw.normal(0.0, noise, (length, SAMPLES))
        powers = numpy.abs(numpy.fft.rfft(wave, axis=-1)[:, bins]) ** 2
        features[i] = 10 * numpy.log10(powers + 1e-12)  # silence is no minus infinity
    return Recordings(features, tones)


def load(
    seed: int = 0, n: int = 2_000, length: int = 24, n_tones: int = 6, lasting: int = 6, noise: float = 1.0
) -> PairsData:
    """n recordings, each as the letters of its loudest bands and the tones that were played.

    >>> load(n=2000).pairs[0]
    ('CCACCCECCCCAAEEEEEEEDAAA', 'CACAEDA')
    """
    heard = record_tones(seed, n, length, n_tones, lasting, noise)
    pairs = [
        (_spell(loudest), _spell(tone for tone, _ in groupby(played)))
        for loudest, played in zip(heard.features.argmax(-1).tolist(), heard.tones.tolist(), strict=True)
    ]
    because = f"{length} frames of {n_tones} tones in noise {noise:g}; generated, seed {seed}"
    return generated_pairs("tones", pairs, because)


def _spell(tones: Any) -> str:
    return "".join([SYMBOLS[tone] for tone in tones])


DATASET = DatasetCard(
    name="tones",
    kind="pairs",
    summary="the loudest band of each frame of tones in noise, and the tones, as CCCBCAAB and CAB",
    source="speech recognition in small: features of frames, and what was said",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
