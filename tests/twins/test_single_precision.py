"""Samples drawn in single precision are those of double precision: the same tokens, near edges and far from them."""

import dataclasses

import numpy as np
import pytest
import torch

from pellucid.decoding import sampling
from pellucid.decoding.continuous import ContinuousBatch, DrawRequest
from pellucid.decoding.sampling import ImpreciseScores, draw_tokens
from pellucid.layers.positions import POSITIONS
from pellucid.models.sequences import compiled_decoding
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.models.stepwise import ForwardReading, NeuralReading
from pellucid.training.inference.single_precision import JoinableSingleReading, SingleReading, can_read_in_single

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(compiled_decoding._decoder is None, reason="pellucid was installed without a C compiler"),
]

CONFIG = TransformerConfig(vocab_size=27, context=12, width=24, depth=2, n_heads=2)
OPTIONS = {"longest": 30, "start": [0], "stop": 0, "seed": 3}


def lively(config=CONFIG):
    model, chance = Transformer(config), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance) * parameter.shape[-1] ** -0.5)
    return model.double().for_inference().requires_grad_(False)


def tokens_of(drawn):
    return [sample.tokens for sample in drawn]


class CountingReading(SingleReading):
    """Counts the rows that are read again."""

    n_again = 0

    def read_again(self, rows):
        self.n_again += len(rows)
        return super().read_again(rows)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("temperature", [1.0, 0.5, 1.7])
def test_the_tokens_are_those_of_double_precision(positions, temperature):
    """Past the end of the context too, where reading begins anew."""
    model = lively(dataclasses.replace(CONFIG, positions=positions))
    reading = CountingReading(model)
    reading.error *= 300  # so that some rows are near an edge by this seed; what is near is read again, and no worse
    drawn = draw_tokens(reading, n_samples=400, temperature=temperature, **OPTIONS)
    wanted = draw_tokens(NeuralReading(model), n_samples=400, temperature=temperature, **OPTIONS)
    assert tokens_of(drawn) == tokens_of(wanted)
    assert reading.n_again > 0
    assert np.allclose([one.log_probability for one in drawn], [one.log_probability for one in wanted], atol=1e-4)
    assert tokens_of(drawn[:20]) == tokens_of(
        draw_tokens(ForwardReading(model), n_samples=20, temperature=temperature, **OPTIONS)
    )


class FalseReading(SingleReading):
    """Scores that are off by as much as is said and never more: the worst that single precision could be."""

    def __init__(self, model, error):
        super().__init__(model)
        self.error = error
        self.chance = np.random.default_rng(0)

    def advance(self, tokens):
        found = self.exact_twin.advance(tokens)
        self.fast.advance(tokens)
        off = self.chance.uniform(-0.25, 0.25, found.shape) * self.error  # against each other by half of it
        self.scores = found + off
        return self.scores

    def read(self, tokens):
        self.exact_twin = NeuralReading(self.exact.model)
        self.fast.read(tokens)
        self.scores = self.exact_twin.read(tokens)
        return self.scores

    def keep(self, rows):
        self.exact_twin.keep(rows)
        super().keep(rows)


def test_scores_that_are_off_by_half_of_what_is_said_change_no_token(monkeypatch):
    """And without looking at the edges they would: the test can fail."""
    model = lively()
    wanted = tokens_of(draw_tokens(NeuralReading(model), n_samples=500, **OPTIONS))
    assert tokens_of(draw_tokens(FalseReading(model, 0.02), n_samples=500, **OPTIONS)) == wanted
    monkeypatch.setattr(sampling, "near_edges", lambda *_: np.zeros(0, np.int64))
    assert tokens_of(draw_tokens(FalseReading(model, 0.02), n_samples=500, **OPTIONS)) != wanted


def test_a_sample_is_the_same_in_any_company():
    """Log-probabilities too, to the bit."""
    model = lively()
    together = draw_tokens(SingleReading(model), n_samples=200, **OPTIONS)
    for n_samples in (1, 2, 7, 64):
        assert draw_tokens(SingleReading(model), n_samples=n_samples, **OPTIONS) == together[:n_samples]


def test_scores_further_off_than_was_measured_are_told():
    model = lively()
    reading = SingleReading(model)
    with torch.no_grad():
        for part in reading.fast.model.parameters():
            part.mul_(1.01)
    reading.fast = NeuralReading(reading.fast.model)
    reading.read(np.array([[0, 5], [0, 6]]))
    with pytest.raises(ImpreciseScores):
        reading.read_again(np.array([1]))


def test_only_what_compiled_code_reads_is_read_in_single_precision(monkeypatch):
    model = lively()
    assert can_read_in_single(model)
    assert not can_read_in_single(lively(dataclasses.replace(CONFIG, form="post")))
    monkeypatch.setenv("PELLUCID_COMPILED_DECODING", "0")
    assert not can_read_in_single(model)


def test_samples_are_drawn_in_pieces_and_each_is_the_same(monkeypatch):
    model = lively()
    together = draw_tokens(NeuralReading(model), n_samples=50, **OPTIONS)
    monkeypatch.setattr(sampling, "AT_ONCE", 8)
    assert draw_tokens(NeuralReading(model), n_samples=50, **OPTIONS) == together


class CountingJoinableReading(JoinableSingleReading):
    """Counts the rows that are read again; told to, it says once that its scores were too far off."""

    n_again, is_false = 0, False

    def read_again(self, rows):
        self.n_again += len(rows)
        if self.is_false:
            raise ImpreciseScores
        return super().read_again(rows)


@pytest.mark.parametrize("is_false", [False, True])
@pytest.mark.parametrize("positions", POSITIONS)
def test_requests_that_join_and_leave_draw_the_tokens_of_double_precision(positions, is_false):
    """Past the end of the context too, and where all has to be read in double precision from some step on."""
    model = lively(dataclasses.replace(CONFIG, positions=positions))
    reading = CountingJoinableReading(model)
    reading.error *= 300
    reading.is_false = is_false
    chance, asked = np.random.default_rng(3), {}
    for key in range(60):
        asked[key] = DrawRequest(
            start=tuple(chance.integers(0, 27, chance.integers(1, 14)).tolist()),
            n_samples=int(chance.choice([1, 1, 3])),
            longest=int(chance.integers(1, 30)),
            stop=int(chance.choice([-1, 0])),
            seed=key,
            temperature=float(chance.choice([0.5, 1.0, 1.7])),
        )
    batch, waiting, found = ContinuousBatch(reading, room=16), list(asked), {}
    while waiting or batch.n_rows:
        while waiting and batch.has_room(asked[waiting[0]].n_samples):
            batch.add(waiting[0], asked[waiting.pop(0)])
        for one in batch.step():
            found.setdefault((one.key, one.sample), []).append(one)
    for key, one in asked.items():
        options = {"longest": one.longest, "stop": one.stop, "seed": one.seed, "temperature": one.temperature}
        wanted = draw_tokens(NeuralReading(model), n_samples=one.n_samples, start=one.start, **options)
        for sample, drawn in enumerate(wanted):
            assert tuple(token.token for token in found[key, sample] if not token.is_stop) == drawn.tokens
    assert reading.n_again > 0
    assert (reading.error == 0) == is_false
