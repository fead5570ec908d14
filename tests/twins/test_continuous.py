"""A request in a running batch draws what it draws alone, whichever others are there, and as `draw_tokens` does."""

import dataclasses

import numpy as np
import pytest
import torch

from pellucid.data.prepare.tokens import Corpus
from pellucid.decoding.continuous import ContinuousBatch, DrawRequest
from pellucid.decoding.sampling import FromContexts, draw_tokens
from pellucid.models.catalogue import networks_for
from pellucid.models.counting.count_model import JoinableCounts
from pellucid.models.counting.ngram import NGram, NGramConfig
from pellucid.models.sequences import fast_decoding
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.on_counting import OnCounting, with_own_scores
from pellucid.models.sequences.transformer import Transformer
from pellucid.models.stepwise import JoinableNeuralReading, NeuralReading, rows_keep_their_bits

pytestmark = pytest.mark.usefixtures("one_thread")

CARDS = networks_for("list")


def lively(model, seed=0):
    """Weights that have opinions: heads and projections begin at zero, where nothing could go wrong."""
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance) * (0.5 if parameter.dim() > 1 else 0.1))
    return model.double()


def counted(vocab_size, order=3):
    stream = np.random.default_rng(0).integers(0, vocab_size, 300).astype(np.uint8)
    return NGram.fit(Corpus(stream, has_boundary=False), NGramConfig(vocab_size, order=order))


def transformer(**choices):
    return lively(
        Transformer(TransformerConfig(**{"vocab_size": 11, "context": 20, "width": 24, "depth": 2} | choices))
    )


MODELS = {
    **{name: lambda card=card: lively(card.build(card.tiny)) for name, card in CARDS.items()},
    **{
        f"{name} on counting": lambda card=card: lively(
            OnCounting(card.build(with_own_scores(card.tiny)), counted(card.tiny.vocab_size))
        )
        for name, card in CARDS.items()
        if name in ("transformer", "gru", "mlp")
    },
    "form post": lambda: transformer(form="post", n_heads=2),
    **{
        f"positions {kind}": lambda kind=kind: transformer(positions=kind, n_heads=4)
        for kind in ("none", "learned", "sinusoidal", "relative", "alibi")
    },
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def requests(vocab_size, n=12):
    """Requests of all kinds; several samples and windows that overflow among them."""
    chance = np.random.default_rng(3)
    found = {}
    for key in range(n):
        found[key] = DrawRequest(
            start=tuple(chance.integers(0, vocab_size, chance.integers(1, 15)).tolist()),
            n_samples=int(chance.choice([1, 1, 1, 3])),
            longest=int(chance.integers(1, 30)),
            stop=int(chance.choice([-1, 0])),
            seed=key,
            temperature=float(chance.choice([0.0, 0.7, 1.0])),
            n_likeliest=int(chance.choice([0, 2])),
            filters={"top_p": 0.9} if chance.random() < 0.3 else {},
        )
    return found


def run(reading, asked, room, arrivals):
    """Everything that was drawn for each request and sample; `arrivals` says at which step each may join."""
    batch = ContinuousBatch(reading, room)
    waiting = sorted(asked, key=lambda key: arrivals[key])
    found = {(key, sample): [] for key, one in asked.items() for sample in range(one.n_samples)}
    step = 0
    while waiting or batch.n_rows:
        while waiting and arrivals[waiting[0]] <= step and batch.has_room(asked[waiting[0]].n_samples):
            key = waiting.pop(0)
            batch.add(key, asked[key])
        for one in batch.step():
            found[one.key, one.sample].append(one)
        assert batch.n_rows <= room
        step += 1
    return found


def run_alone(make_reading, asked):
    found = {}
    for key, one in asked.items():
        found |= run(make_reading(), {key: one}, one.n_samples, {key: 0})
    return found


def rounded(drawn):
    """To the bit they are the same only where products of even numbers of rows are: see the last test."""
    return [
        (one.token, round(one.log_probability, 10), tuple((token, round(log, 10)) for token, log in one.likeliest))
        for one in drawn
    ]


def check(make_reading, plain_reading, asked):
    alone = run_alone(make_reading, asked)
    chance = np.random.default_rng(4)
    for room in (9, 64):
        arrivals = {key: int(chance.integers(0, 20)) for key in asked}
        together = run(make_reading(), asked, room, arrivals)
        assert {key: rounded(drawn) for key, drawn in together.items()} == {
            key: rounded(drawn) for key, drawn in alone.items()
        }
    for key, one in asked.items():
        drawn = draw_tokens(
            plain_reading(),
            n_samples=one.n_samples,
            longest=one.longest,
            start=one.start,
            stop=one.stop,
            seed=one.seed,
            temperature=one.temperature,
            **one.filters,
        )
        for sample, wanted in enumerate(drawn):
            got = [token.token for token in alone[key, sample]]
            assert tuple(got[:-1] if alone[key, sample][-1].is_stop else got) == wanted.tokens
            assert sum(token.log_probability for token in alone[key, sample]) == pytest.approx(wanted.log_probability)


def test_a_network(model):
    check(lambda: JoinableNeuralReading(model), lambda: NeuralReading(model), requests(model.vocab_size))


def test_a_model_that_counts():
    model = counted(11)
    check(lambda: JoinableCounts(model), lambda: FromContexts(model.log_probabilities), requests(11))


def test_one_that_looks_at_nothing():
    model = counted(11, order=1)
    check(lambda: JoinableCounts(model), lambda: FromContexts(model.log_probabilities), requests(11))


def test_a_removed_request_frees_its_rows_and_changes_no_other():
    model, asked = transformer(n_heads=2), requests(11)
    alone = run_alone(lambda: JoinableNeuralReading(model), asked)
    batch = ContinuousBatch(JoinableNeuralReading(model), room=64)
    found = {key: [] for key in alone}
    for key, one in asked.items():
        batch.add(key, one)
    long = [key for key, one in asked.items() if len(alone[key, 0]) > 5]
    never, single, *removed = long[:4]
    batch.remove(never)  # before it ran
    for step in range(40):
        for one in batch.step():
            found[one.key, one.sample].append(one)
        if step == 3:
            before = batch.n_rows
            for key in removed:
                batch.remove(key)
            batch.remove(single, 0)
            batch.remove("nobody")
            still_open = sum(len(alone[key]) > 4 for key in alone if key[0] in removed) + 1
            assert batch.n_rows == before - still_open
    assert batch.n_rows == 0
    for (key, sample), got in found.items():
        n = 0 if key == never else 4 if key in removed or (key, sample) == (single, 0) else len(alone[key, sample])
        assert rounded(got) == rounded(alone[key, sample][:n])


def test_of_many_samples_at_once_the_first_are_those_of_fewer():
    model = transformer(n_heads=2)
    many = DrawRequest(start=(0, 3), n_samples=30, longest=12, seed=5)
    few = DrawRequest(start=(0, 3), n_samples=2, longest=12, seed=5)
    found = run(JoinableNeuralReading(model), {"m": many, "f": few}, 64, {"m": 0, "f": 3})
    for sample in range(2):
        assert [one.token for one in found["m", sample]] == [one.token for one in found["f", sample]]


@pytest.mark.parametrize("name", ["transformer", "gru", "mlp", "wavenet", "transformer on counting"])
def test_the_bits_are_the_same_where_that_is_measured(name):
    model = MODELS[name]()
    asked = requests(model.vocab_size)
    alone = run_alone(lambda: JoinableNeuralReading(model), asked)
    together = run(JoinableNeuralReading(model), asked, 64, {key: key % 7 for key in asked})
    if rows_keep_their_bits(model):
        assert together == alone


def test_rows_that_are_not_computed_in_even_numbers_are_told(monkeypatch):
    """Without padding the product of one row is another kernel than that of many, and the last bits tell."""
    monkeypatch.setenv("PELLUCID_COMPILED_DECODING", "0")
    model = lively(CARDS["transformer"].build(dataclasses.replace(CARDS["transformer"].tiny, width=64, n_heads=2)))
    assert rows_keep_their_bits(model)
    monkeypatch.setattr(fast_decoding, "even", lambda n: n)
    assert not rows_keep_their_bits(model)
