"""Answers of networks for pairs: greedy in batches, by beam search, and what was attended to on the way."""

import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pellucid.data.sets.dedupe_sort import load
from pellucid.decoding.beam import beam_search
from pellucid.decoding.sampling import draw_tokens
from pellucid.models import stepwise
from pellucid.models.catalogue import networks_for
from pellucid.models.contracts import PairModel
from pellucid.models.pairs.padding import align_right, lengths_of, pad_rows, trim_padding
from pellucid.models.stepwise import PairReading, greedy_answers

CARDS = networks_for("pairs")
pytestmark = pytest.mark.usefixtures("one_thread")


def drawn(name: str, seed: int = 0) -> PairModel:
    """A tiny one with opinions, though they are about nothing."""
    card = CARDS[name]
    torch.manual_seed(seed)
    model = card.build(card.tiny).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model


def half_taught(name: str) -> PairModel:
    """A tiny one that has begun to learn to copy all but the last token: its answers have several lengths."""
    card = CARDS[name]
    torch.manual_seed(0)
    model = card.build(card.tiny).double()
    sources = sources_of(40, seed=1)
    copies = [source[source != 0].tolist()[:-1] for source in sources]
    learn(model, sources, copies, steps=40)
    return model


def learn(model: PairModel, sources: Tensor, targets: list[list[int]], steps: int, batch: int = 64) -> None:
    tokens, wanted = pad_rows([[0, *target] for target in targets]), pad_rows([[*target, 0] for target in targets])
    lengths = torch.tensor([len(target) for target in targets])
    wanted = wanted.masked_fill(torch.arange(wanted.shape[1]) > lengths[:, None], -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(steps):
        rows = torch.arange(batch * step, batch * (step + 1)) % len(sources)
        optimizer.zero_grad()
        scores = model(sources[rows], tokens[rows])
        functional.cross_entropy(scores.flatten(0, 1), wanted[rows].flatten()).backward()
        optimizer.step()


def sources_of(n: int, seed: int = 0) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    rows = [torch.randint(1, 7, (1 + row % 5,), generator=chance).tolist() for row in range(n)]
    return pad_rows(rows)


def greedy(model: PairModel, source: Tensor) -> list[int]:
    """One source alone, by the whole pass again for each token: the slow twin."""
    written = [0]
    while len(written) <= model.longest_target + 1:
        with torch.no_grad():
            token = int(model(source[None], torch.tensor([written]))[0, -1].argmax())
        if token == 0:
            break
        written.append(token)
    return written[1:]


@pytest.mark.parametrize("name", CARDS)
def test_answers_in_batches_are_those_one_by_one(name, monkeypatch):
    model, sources = half_taught(name), sources_of(20)
    ready = model.for_inference()
    expected = [greedy(ready, source) for source in sources]
    assert len({len(answer) for answer in expected}) > 2  # so rows end at different times
    assert greedy_answers(model, sources) == expected
    monkeypatch.setattr(stepwise, "AT_ONCE", 7)
    assert greedy_answers(model, sources) == expected
    assert model.training  # as it was


@pytest.mark.parametrize("name", CARDS)
def test_an_answer_without_an_end_is_longer_than_any_target(name):
    model = drawn(name)
    with torch.no_grad():
        if name == "transformer":
            head = model.network.head
            head.weight[0] = 0  # the end has no score of its own, and of any vector one of the others' is above it
            head.weight[1:4], head.weight[4:] = head.weight[4:].clone(), -head.weight[4:].clone()
        else:
            model.head.bias[0] = -1e6
    assert {len(answer) for answer in greedy_answers(model, sources_of(6))} == {model.longest_target + 1}


def test_no_source_has_no_answer():
    model = drawn("encoder-decoder")
    assert greedy_answers(model, torch.zeros(0, 3, dtype=torch.int64)) == []


@pytest.mark.parametrize("name", CARDS)
def test_a_beam_of_one_is_greedy(name):
    model, sources = drawn(name), sources_of(12)
    longest = model.longest_target + 1
    for source, answer in zip(sources, greedy_answers(model, sources), strict=True):
        tokens = source[source != 0].tolist()
        best = beam_search(PairReading(model, tokens), width=1, longest=longest, start=[0], stop=0)[0]
        assert list(best.drawn.tokens) == answer
        assert best.drawn.is_cut == (len(answer) == longest)
        sample = draw_tokens(PairReading(model, tokens), n_samples=2, longest=longest, start=[0], stop=0, temperature=0)
        assert [list(one.tokens) for one in sample] == [answer, answer]


@pytest.mark.parametrize("name", CARDS)
def test_a_beam_that_leaves_nothing_out_finds_the_likeliest_answer(name):
    model = drawn(name, seed=3)
    source, longest = [3, 1, 2], 3
    ready = model.for_inference()

    def log_probability(answer: tuple[int, ...]) -> float:
        tokens = torch.tensor([[0, *answer[:-1]]])
        with torch.no_grad():
            logs = ready(torch.tensor([source]), tokens).log_softmax(-1)[0]
        return float(logs[range(len(answer)), answer].sum())

    words = range(1, 7)
    ended = [(*some, 0) for n in range(longest) for some in itertools.product(words, repeat=n)]
    cut = list(itertools.product(words, repeat=longest))
    likeliest = max([*ended, *cut], key=log_probability)
    found = beam_search(PairReading(model, source), width=300, longest=longest, start=[0], stop=0)
    best = found[0]
    assert (*best.drawn.tokens, *([] if best.drawn.is_cut else [0])) == likeliest
    assert best.drawn.log_probability == pytest.approx(log_probability(likeliest), abs=1e-9)
    assert sum(math.exp(one.drawn.log_probability) for one in found) <= 1 + 1e-9


@pytest.mark.parametrize("name", CARDS)
def test_a_reading_knows_nothing_before_the_boundary(name):
    reading = PairReading(drawn(name), [1, 2])
    assert (reading.read(torch.zeros(3, 0, dtype=torch.int64).numpy()) == 0).all()
    first = reading.advance(torch.zeros(3, dtype=torch.int64).numpy())
    again = reading.read(torch.zeros(3, 1, dtype=torch.int64).numpy())
    assert first == pytest.approx(again)


def test_the_encoder_decoders_weights_are_told_for_each_head():
    model = drawn("encoder-decoder")
    sources, tokens = pad_rows([[3, 1, 4], [2]]), torch.tensor([[0, 1, 2, 3], [0, 4, 4, 4]])
    before = model(sources, tokens)
    maps = model.attention_maps(functional.pad(sources, (0, 4)), tokens)
    assert {name: tuple(found.shape) for name, found in maps.items()} == {
        "source": (2, 2, 2, 3, 3),  # depth, batch, heads, who asks, who is asked
        "target": (2, 2, 2, 4, 4),
        "cross": (2, 2, 2, 4, 3),
    }
    for found in maps.values():
        assert torch.allclose(found.sum(-1), torch.ones((), dtype=torch.float64))
    assert (maps["target"].triu(1) == 0).all()
    assert (maps["source"][:, 1, :, :, 1:] == 0).all()  # what only fills up is not seen
    assert (maps["cross"][:, 1, :, :, 1:] == 0).all()
    assert torch.equal(model(sources, tokens), before)


def test_the_weights_are_those_that_the_stream_is_mixed_by():
    """The last block's cross-attention by hand: weights times values, combined, is what the module itself gives."""
    model = drawn("encoder-decoder").eval()
    sources, tokens = pad_rows([[3, 1, 4], [2]]), torch.tensor([[0, 1, 2, 3], [0, 4, 4, 4]])
    attention = model.decoder.blocks[-1].memory_attention
    seen = {}
    attention.combine.register_forward_hook(lambda module, came, out: seen.update(mixed=came[0]))
    model(sources, tokens)
    _, values = attention.project_memory(model.encode(sources)[0])
    weights = model.attention_maps(sources, tokens)["cross"][-1]
    by_hand = (weights @ values).transpose(1, 2).flatten(2)
    assert torch.allclose(by_hand, seen["mixed"], atol=1e-10)


def test_the_encoders_weights_are_told_for_each_head():
    model = drawn("encoder")
    maps = model.attention_maps(pad_rows([[3, 1, 4], [2]]), torch.tensor([[0, 1, 2, 3, 4]] * 2))
    assert maps.keys() == {"source"}
    assert maps["source"].shape == (2, 2, 2, 5, 5)  # as many places as are written
    assert (maps["source"][:, 0, :, :, 3:] == 0).all()
    assert torch.allclose(maps["source"].sum(-1), torch.ones((), dtype=torch.float64))


def test_rows_are_padded_trimmed_and_moved():
    rows = pad_rows([[3, 1], [], [2, 2, 2]])
    assert rows.tolist() == [[3, 1, 0], [0, 0, 0], [2, 2, 2]]
    assert pad_rows([]).shape == (0, 1)
    assert pad_rows([[]]).tolist() == [[0]]
    assert lengths_of(rows).tolist() == [2, 0, 3]
    wide = functional.pad(rows, (0, 5))
    assert torch.equal(trim_padding(wide, longest=3), rows)
    for given in (rows, wide):
        assert align_right(given, room=4).tolist() == [[0, 0, 3, 1], [0, 0, 0, 0], [0, 2, 2, 2]]
        assert torch.equal(align_right(given, room=3)[:, -1], torch.tensor([1, 0, 2]))


@pytest.mark.parametrize("name", CARDS)
def test_it_learns_to_sort(name):
    """From 800 pairs in 200 steps. With each of three seeds all 200 sources that it never saw were answered right."""
    pairs = [([ord(c) - 64 for c in s], [ord(c) - 64 for c in t]) for s, t in load(n=1_000).pairs]
    known, new = pairs[:800], pairs[800:]
    torch.manual_seed(0)
    model = CARDS[name].build(CARDS[name].of_size("tiny", 5, 6, 4))
    learn(model, pad_rows([source for source, _ in known]), [target for _, target in known], steps=200)
    found = greedy_answers(model, pad_rows([source for source, _ in new]))
    assert sum(answer == target for answer, (_, target) in zip(found, new, strict=True)) >= 0.9 * len(new)
