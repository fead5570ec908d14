"""Tones in noise and the recogniser that listens to them: signals, chances and caches held to what they must be."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.utils.flop_counter import FlopCounterMode

from pellucid.data import PairsData, open_data
from pellucid.data.sets import tones
from pellucid.data.sets.tones import SAMPLES, Recordings, record_tones
from pellucid.errors import PellucidError
from pellucid.lessons import streaming
from pellucid.lessons.streaming import (
    LASTING,
    StreamingKnobs,
    best_guesses,
    count_frame,
    stream_frames,
    tone_likelihoods,
)
from pellucid.models.sequences.frame_recogniser import FrameRecogniser

# Recordings


def test_a_tone_without_noise_is_in_its_own_band_alone() -> None:
    """The transform of a sine over whole periods has the size samples / 2 at its frequency, and 0 elsewhere."""
    heard = record_tones(seed=1, n=3, length=20, n_tones=5, noise=0.0)
    powers = 10 ** (heard.features / 10)
    own = np.take_along_axis(powers, heard.tones[:, :, None], axis=-1)
    assert own == pytest.approx((SAMPLES / 2) ** 2, rel=1e-9)
    assert powers.sum(-1) - own[:, :, 0] == pytest.approx(0, abs=1e-9)


def test_powers_of_noise_and_of_tones_in_noise_have_their_distributions() -> None:
    """Exponential without a tone, noncentral chi-square with one. A true one is rejected here once in 10,000."""
    noise = 1.5
    heard = record_tones(seed=3, n=60, length=40, n_tones=4, noise=noise)
    powers = 10 ** (heard.features / 10)
    spread = SAMPLES * noise**2
    is_own = np.arange(4) == heard.tones[:, :, None]
    assert stats.kstest(powers[~is_own] / spread, stats.expon.cdf).pvalue > 1e-4
    with_tone = stats.ncx2(2, 2 * (SAMPLES / 2) ** 2 / spread)
    assert stats.kstest(2 * powers[is_own] / spread, with_tone.cdf).pvalue > 1e-4


def test_a_tone_lasts_as_long_as_it_was_asked_to() -> None:
    heard = record_tones(seed=0, n=200, length=100, lasting=5)
    changes = heard.tones[:, 1:] != heard.tones[:, :-1]
    assert stats.binomtest(int(changes.sum()), changes.size, 1 / 5).pvalue > 1e-4
    steps = (heard.tones[:, 1:] - heard.tones[:, :-1])[changes] % 6
    assert stats.chisquare(np.bincount(steps, minlength=6)[1:]).pvalue > 1e-4


def test_tones_are_pairs_of_what_is_loudest_and_what_was_played() -> None:
    data = open_data("tones:n=30,length=12")
    assert isinstance(data, PairsData)
    heard = record_tones(seed=0, n=30, length=12)
    for (source, target), features, played in zip(data.pairs, heard.features, heard.tones, strict=True):
        assert source == "".join("ABCDEF"[int(np.argmax(frame))] for frame in features)
        assert target == "".join(letter for letter, _ in itertools.groupby("ABCDEF"[tone] for tone in played))
    assert tones.load(n=5, noise=0.0).pairs[0][0].startswith(tones.load(n=5, noise=0.0).pairs[0][1][0])
    for options in ({"n_tones": 1}, {"length": 0}, {"lasting": 0}, {"noise": -1.0}):
        with pytest.raises(PellucidError, match="cannot be recorded"):
            tones.load(n=1, **options)


# The best that can be


def test_likelihoods_are_scipys_up_to_what_all_tones_share() -> None:
    for noise in (0.1, 0.7, 2.0):
        features = record_tones(seed=2, n=2, length=6, n_tones=3, noise=max(noise, 0.5)).features
        powers, spread = 10 ** (features / 10), SAMPLES * noise**2
        logs = np.empty_like(features)
        for tone in range(3):
            each = stats.expon.logpdf(powers, scale=spread)
            with_tone = stats.ncx2.logpdf(2 * powers / spread, 2, 2 * (SAMPLES / 2) ** 2 / spread) + math.log(
                2 / spread
            )
            each[..., tone] = with_tone[..., tone]
            logs[..., tone] = each.sum(-1)
        found = tone_likelihoods(features, noise)
        wanted = np.exp(logs - logs.max(-1, keepdims=True))
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("look_ahead", [0, 1, 3, 9])
def test_the_best_guess_is_that_of_all_sequences_counted(look_ahead: int) -> None:
    """Every sequence of tones with its probability, for each frame given what is known then."""
    length, n_tones, noise = 6, 3, 2.0
    heard = record_tones(seed=5, n=3, length=length, n_tones=n_tones, noise=noise)
    likelihoods = tone_likelihoods(heard.features, noise)
    (guessed,) = best_guesses(heard, [look_ahead], noise)
    for row in range(3):
        for frame in range(length):
            end = min(length, frame + look_ahead + 1)
            chances = np.zeros(n_tones)
            for sequence in itertools.product(range(n_tones), repeat=end):
                chance = 1 / n_tones
                for before, after in itertools.pairwise(sequence):
                    chance *= 1 - 1 / LASTING if before == after else 1 / LASTING / (n_tones - 1)
                for place, tone in enumerate(sequence):
                    chance *= likelihoods[row, place, tone]
                chances[sequence[frame]] += chance
            assert guessed[row, frame] == chances.argmax()


def test_nobody_is_better_than_the_best_by_more_than_chance() -> None:
    study = streaming.measure(StreamingKnobs(steps=60, look_ahead=(0, 3)))
    assert study.n_judged == 300 * 29
    for result in study.results:
        assert result.off_by < 1e-12
        # A paired difference of shares over so many frames has a deviation of at most 0.4 %.
        assert study.loudest < result.accuracy < result.best + 0.02
    assert study.results[1].best > study.results[0].best + 0.03
    assert study.results[1].accuracy > study.results[0].accuracy


# The recogniser


def recogniser(context: int = 4) -> FrameRecogniser:
    torch.manual_seed(0)
    made = FrameRecogniser(features=5, classes=3, context=context, width=8, n_heads=2, depth=3).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


@pytest.mark.parametrize("context", [1, 4, 30])
@pytest.mark.parametrize("look_ahead", [0, 1, 3, 7, 20])
@pytest.mark.parametrize("time", [1, 5, 16])
def test_frames_as_they_come_give_what_all_at_once_give(context: int, look_ahead: int, time: int) -> None:
    model, frames = recogniser(context), torch.randn(2, time, 5, dtype=torch.float64)
    with torch.no_grad():
        whole = model(frames, look_ahead)
    assert torch.allclose(stream_frames(model, frames, look_ahead), whole, atol=1e-10)


@pytest.mark.parametrize("look_ahead", [0, 2, 5])
def test_it_hears_its_look_ahead_and_nothing_later(look_ahead: int) -> None:
    """Also in three blocks: the look-ahead is that of the first, and does not add up."""
    model, frames = recogniser(), torch.randn(1, 12, 5, dtype=torch.float64, requires_grad=True)
    for told in range(12):
        (slopes,) = torch.autograd.grad(model(frames, look_ahead)[0, told].sum(), frames)
        heard = slopes[0].abs().sum(-1).nonzero().flatten().tolist()
        assert max(heard) == min(11, told + look_ahead)
        assert min(heard) == max(0, told - 3 * 4)  # each block looks four frames back


def test_a_stream_keeps_no_more_than_its_rings() -> None:
    model = recogniser()
    stream = model.begin(batch=1, look_ahead=2)
    with torch.no_grad():
        for i in range(50):
            assert len(model.advance(torch.randn(1, 5, dtype=torch.float64), stream)) == (i >= 2)
            assert len(stream.waiting) <= 2
    assert [ring.keys.shape[2] for ring in stream.rings] == [2 * 7, 2 * 5, 2 * 5]
    assert len(model.finish(stream)) == 2
    assert stream.n_told == 50


@pytest.mark.parametrize("n_heard", [0, 9, 40])
def test_operations_of_a_frame_are_those_that_torch_counts(n_heard: int) -> None:
    """Torch counts matrix products; its fused attention on CPU it passes over, so that is added by the formula."""
    model = FrameRecogniser(features=6, classes=4, context=16, width=16, n_heads=2, depth=2)
    frames = torch.randn(1, n_heard + 1, 6)
    cost = count_frame(model, n_heard)
    stream = model.begin(batch=1)
    with torch.no_grad():
        for i in range(n_heard):
            model.advance(frames[:, i], stream)
        for called, flops, attention in (
            (lambda: model.advance(frames[:, -1], stream), cost.cached_flops, 4 * 2 * 16 * min(n_heard + 1, 17)),
            (lambda: model(frames), cost.whole_flops, 4 * 2 * 16 * (n_heard + 1) ** 2),
        ):
            with FlopCounterMode(display=False) as counter:
                called()
            by_kind = counter.get_flop_counts()["Global"]
            counted = sum(n for kind, n in by_kind.items() if "attention" not in str(kind) and "bmm" not in str(kind))
            assert counted + attention == flops


def test_recordings_are_as_many_as_asked_and_begin_alike() -> None:
    few, many = record_tones(seed=4, n=2, length=9), record_tones(seed=4, n=5, length=9)
    assert isinstance(many, Recordings)
    assert (many.features[:2] == few.features).all()
    assert (many.tones[:2] == few.tones).all()
