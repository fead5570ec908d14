"""Counting and smoothing against slow, independent twins: dictionaries and the formulas as textbooks have them."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.prepare.tokens import Corpus
from pellucid.errors import PellucidError
from pellucid.models.counting import counts as counting
from pellucid.models.counting import cross_fit
from pellucid.models.counting.counts import count
from pellucid.models.counting.cross_fit import MOST_PARTS, CrossFit
from pellucid.models.counting.fitting import best_ngram, count_loss
from pellucid.models.counting.ngram import AddS, KneserNey, NGram, NGramConfig, WittenBell
from pellucid.models.counting.simple_models import Bigram, BigramConfig

VOCAB = 4
Gram = tuple[int, ...]
Probability = Callable[[Gram, int], float]


def stream(tokens, has_boundary=True, closing=0):
    return SimpleNamespace(tokens=np.asarray(tokens, dtype=np.uint8), has_boundary=has_boundary, closing=closing)


def of_items(items, closing=0):
    return stream([0] + [token for item in items for token in (*item, 0)], closing=closing)


def slow_counts(data, order: int) -> list[Counter[Gram]]:
    """For each order from 1 up the grams, read off one by one; a list's items are padded with boundaries."""
    tokens = data.tokens.tolist()
    found: list[Counter[Gram]] = [Counter() for _ in range(order)]
    if not data.has_boundary:
        for k in range(1, order + 1):
            found[k - 1].update(tuple(tokens[i - k : i]) for i in range(k, len(tokens) + 1))
        return found
    item: list[int] = []
    for token in tokens[1:]:
        item.append(token or data.closing)
        if token == 0:
            padded = [0] * (order - 1) + item
            for end in range(order, len(padded) + 1):
                for k in range(1, order + 1):
                    found[k - 1][tuple(padded[end - k : end])] += 1
            item = []
    return found


def context_of(gram: Gram, n: int, has_boundary: bool) -> Gram:
    """The last n tokens before the next: nothing before a boundary is seen, and a list's is filled with boundaries."""
    if has_boundary:
        since = gram[len(gram) - 1 - gram[::-1].index(0) :] if 0 in gram else gram
        gram = (0,) * n + since
    return gram[len(gram) - min(n, len(gram)) :]


def slow_add(data, order: int, s: float) -> Probability:
    found = slow_counts(data, order)

    def probability(context: Gram, token: int) -> float:
        context = context_of(context, order - 1, data.has_boundary)
        grams = found[len(context)]
        total = sum(n for gram, n in grams.items() if gram[:-1] == context)
        if total == 0:
            return 1 / VOCAB
        return (grams[*context, token] + s) / (total + s * VOCAB)

    return probability


def slow_witten_bell(data, order: int) -> Probability:
    found = slow_counts(data, order)

    def shares(context: Gram, token: int) -> float:
        below = shares(context[1:], token) if context else 1 / VOCAB
        after = {gram[-1]: n for gram, n in found[len(context)].items() if gram[:-1] == context}
        if not after:
            return below
        total, kinds = sum(after.values()), len(after)
        return (after.get(token, 0) + kinds * below) / (total + kinds)

    return lambda context, token: shares(context_of(context, order - 1, data.has_boundary), token)


def slow_kneser_ney(data, order: int, discount: float = 0.0) -> Probability:
    """Chen and Goodman (1999), equations 22 to 27: raw counts above, numbers of different predecessors below."""
    raw = slow_counts(data, order)
    adjusted: list[dict[Gram, int]] = [{} for _ in range(order)]
    adjusted[-1] = dict(raw[-1])
    for k in range(order - 1, 0, -1):
        predecessors = defaultdict(set)
        for gram in raw[k]:
            predecessors[gram[1:]].add(gram[0])
        adjusted[k - 1] = {gram: len(before) for gram, before in predecessors.items()}

    def discounts(k: int) -> tuple[float, ...]:
        if discount:
            return (discount,) * 3
        n1, n2, n3, n4 = (sum(n == c for n in adjusted[k - 1].values()) for c in (1, 2, 3, 4))
        if not n1:
            return (0.5, 1.0, 1.5)
        y = n1 / (n1 + 2 * n2)
        wanted = [1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2 if n2 else 0, 3 - 4 * y * n4 / n3 if n3 else 0]
        return tuple(d if 0 < d <= c else c / 2 for c, d in enumerate(wanted, start=1))

    takes = [discounts(k) for k in range(1, order + 1)]

    def share(context: Gram, token: int) -> float:
        below = share(context[1:], token) if context else 1 / VOCAB
        after = {gram[-1]: n for gram, n in adjusted[len(context)].items() if gram[:-1] == context}
        total = sum(after.values())
        if not total:
            return below
        small, middle, large = takes[len(context)]
        taken = {w: {1: small, 2: middle}.get(n, large) for w, n in after.items()}
        own = max(after[token] - taken[token], 0) / total if token in after else 0.0
        return own + sum(taken.values()) / total * below

    return lambda context, token: share(context_of(context, order - 1, data.has_boundary), token)


ITEMS = st.lists(st.lists(st.integers(1, VOCAB - 1), min_size=1, max_size=6), min_size=1, max_size=25)
TEXT = st.lists(st.integers(0, VOCAB - 1), min_size=2, max_size=80)
# Where two boundaries are asked for, the last token closes every item, and none has it inside.
CLOSED = st.lists(st.lists(st.integers(1, VOCAB - 2), min_size=1, max_size=6), min_size=1, max_size=25)
DATA = st.one_of(
    ITEMS.map(of_items),
    CLOSED.map(lambda items: of_items(items, closing=VOCAB - 1)),
    TEXT.map(lambda tokens: stream(tokens, has_boundary=False)),
)
SMOOTHINGS = {
    "maximum likelihood": (AddS(0.0), lambda data, n: slow_add(data, n, 0.0)),
    "add-s": (AddS(0.3), lambda data, n: slow_add(data, n, 0.3)),
    "Witten–Bell": (WittenBell(), slow_witten_bell),
    "modified Kneser–Ney": (KneserNey(), slow_kneser_ney),
    "Kneser–Ney": (KneserNey(0.75), lambda data, n: slow_kneser_ney(data, n, 0.75)),
}
# How the tables are kept: dense; sorted; sorted with ranks for codes; counted in small chunks.
LAYOUTS = {
    "dense": {},
    "sorted": {"MOST_DENSE": 4, "MOST_BINS": 4},
    "binned, then sorted": {"MOST_DENSE": 4},
    "ranked": {"MOST_DENSE": 4, "MOST_BINS": 4, "_MOST_CODE": 400},
    "in chunks": {"MOST_DENSE": 4, "MOST_BINS": 4, "_MOST_CODE": 400, "_CHUNK": 3},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SMOOTHINGS)
@settings(max_examples=25)
@given(data=DATA, order=st.integers(1, 5), extra=st.lists(st.integers(0, VOCAB - 1), max_size=7))
def test_every_smoothing_is_its_slow_twin(name, layout, data, order, extra):
    smoothing, slow = SMOOTHINGS[name]
    with pytest.MonkeyPatch.context() as patch:
        for constant, value in LAYOUTS[layout].items():
            patch.setattr(counting, constant, value)
        model = NGram.fit(data, NGramConfig(VOCAB, order, smoothing))
    wanted = slow(data, order)
    # The contexts of the data, seen or not, and one that is made up.
    seen = data.tokens.tolist()
    for context in [(), tuple(extra), *(tuple(seen[:end]) for end in range(1, min(len(seen), 12)))]:
        (row,) = np.exp(model.log_probabilities(np.array([context], dtype=np.int64).reshape(1, -1)))
        assert row.sum() == pytest.approx(1, abs=1e-12)
        assert row == pytest.approx([wanted(context, token) for token in range(VOCAB)], abs=1e-12)
    each = np.exp(model.of_each(data.tokens))
    labels = [token or data.closing for token in seen]
    assert each == pytest.approx([wanted(tuple(seen[:i]), labels[i]) for i in range(1, len(seen))], abs=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=25)
@given(data=DATA, order=st.integers(1, 5))
def test_counts_are_counted_one_by_one(layout, data, order):
    with pytest.MonkeyPatch.context() as patch:
        for constant, value in LAYOUTS[layout].items():
            patch.setattr(counting, constant, value)
        grams = count(data, VOCAB, order)
    for level, wanted in zip(grams.levels, slow_counts(data, order), strict=True):
        assert sorted(level.counts[level.counts > 0].tolist()) == sorted(wanted.values())
        assert level.n_seen == len(wanted)


def as_corpus(data) -> Corpus:
    return Corpus(data.tokens, data.has_boundary, data.closing)


@settings(max_examples=40)
@given(tokens=st.lists(st.integers(0, VOCAB - 1), min_size=10, max_size=80), order=st.integers(1, 4))
def test_a_token_of_a_text_is_predicted_by_what_the_other_parts_hold(tokens, order):
    """By hand: the text in eight stretches, counted one by one without the stretch that the next token stands in."""
    found = CrossFit.cut(as_corpus(stream(tokens, has_boundary=False)), (), NGramConfig(VOCAB, order))
    rows = np.exp(found.log_probabilities(np.arange(len(tokens) - 1)))
    for place, row in enumerate(rows):
        part = (place + 1) * MOST_PARTS // len(tokens)
        rest = [token for i, token in enumerate(tokens) if i * MOST_PARTS // len(tokens) != part]
        wanted = slow_kneser_ney(stream(rest, has_boundary=False), order)
        assert row == pytest.approx([wanted(tuple(tokens[: place + 1]), token) for token in range(VOCAB)], abs=1e-12)


@settings(max_examples=40)
@given(items=ITEMS, order=st.integers(1, 4))
def test_an_item_of_a_list_is_predicted_by_the_items_of_other_parts(items, order):
    """Equal items are in one part, so that none of them tells of another."""
    words = ["".join("-abc"[token] for token in item) for item in items]
    found = CrossFit.cut(as_corpus(of_items(items)), words, NGramConfig(VOCAB, order))
    parts = dict(zip(words, (cross_fit.item_hashes(words, "cross-fit") % MOST_PARTS).tolist(), strict=True))
    place = 0
    for item, word in zip(items, words, strict=True):
        rest = [other for other, name in zip(items, words, strict=True) if parts[name] != parts[word]]
        wanted = slow_kneser_ney(of_items(rest), order)  # of no items: every token as likely as any
        rows = np.exp(found.log_probabilities(np.arange(place, place + len(item) + 1)))
        for read, row in enumerate(rows):  # the last row is of the boundary that closes the item
            context = (0, *item[:read])
            assert row == pytest.approx([wanted(context, token) for token in range(VOCAB)], abs=1e-12)
        place += len(item) + 1


def test_counts_that_have_not_seen_a_token_are_as_unsure_as_on_new_data():
    """A text of pure chance: counts of all of it know it almost by heart, counts of other parts nothing."""
    draw = np.random.default_rng(0)
    text = Corpus(draw.integers(0, VOCAB, 3_000).astype(np.uint8), has_boundary=False)
    new = draw.integers(0, VOCAB, 3_000).astype(np.uint8)
    config = NGramConfig(VOCAB, 7)
    counts = NGram.fit(text, config)
    crossed = CrossFit.cut(text, (), config).log_probabilities(np.arange(2_999))
    on_train = -np.take_along_axis(crossed, text.tokens[1:, None].astype(np.int64), axis=1).mean()
    assert -counts.of_each(text.tokens).mean() < 0.8 * math.log(VOCAB)
    # Two means of 3,000 tokens each, whose losses deviate by about 0.5: six deviations of their difference are 0.08.
    assert on_train == pytest.approx(-counts.of_each(new).mean(), abs=0.08)


def test_a_long_text_is_cut_into_fewer_parts(monkeypatch):
    monkeypatch.setattr(cross_fit, "TOKENS_OF_ALL_PARTS", 300)
    text = Corpus(np.arange(100, dtype=np.uint8) % VOCAB, has_boundary=False)
    assert len(CrossFit.cut(text, (), NGramConfig(VOCAB, 2)).models) == 3
    monkeypatch.setattr(cross_fit, "TOKENS_OF_ALL_PARTS", 10)
    assert len(CrossFit.cut(text, (), NGramConfig(VOCAB, 2)).models) == 2


def test_a_text_with_many_symbols_is_cut_into_fewer_parts(monkeypatch):
    monkeypatch.setattr(cross_fit, "NUMBERS_OF_ALL_PARTS", 300)
    text = Corpus(np.arange(100, dtype=np.uint8) % VOCAB, has_boundary=False)
    assert [CrossFit.cut(text, (), NGramConfig(VOCAB, 2), n).n_parts for n in (1, 60, 100, 1000)] == [8, 5, 3, 2]


@pytest.mark.parametrize("has_boundary", [True, False])
def test_the_table_of_all_tokens_is_what_each_is_told_alone(has_boundary):
    """Bit for bit, and from counts that were made lighter: those of one part at a time."""
    draw = np.random.default_rng(0)
    tokens = draw.integers(0, VOCAB, 400)
    items = ["".join("-abc"[token] for token in tokens[k : k + 5]) for k in range(0, 400, 5)]
    side = as_corpus(
        of_items([[token or 1 for token in tokens[k : k + 5]] for k in range(0, 400, 5)])
        if has_boundary
        else stream(tokens, has_boundary=False)
    )
    found = CrossFit.cut(side, items if has_boundary else (), NGramConfig(VOCAB, 5))
    one_by_one = [found.log_probabilities(np.array([place])) for place in range(side.n_predicted)]
    assert np.array_equal(found.tabulate(), np.concatenate(one_by_one).astype(np.float32))


@pytest.mark.parametrize("vocab_size", [4, 3_000])
def test_a_model_without_its_counts_answers_the_same(vocab_size):
    """Also where codes of contexts are ranks, as with many symbols."""
    draw = np.random.default_rng(1)
    text = Corpus(draw.integers(0, vocab_size, 500).astype(np.int64) % 40, has_boundary=False)
    model = NGram.fit(text, NGramConfig(vocab_size, 7))
    light = model.without_counts()
    assert sum(level.counts.nbytes for level in light.grams.levels if not level.is_dense) == 0
    assert np.array_equal(model.of_each(text.tokens), light.of_each(text.tokens))
    assert np.array_equal(model.after_each(text.tokens[:50]), light.after_each(text.tokens[:50]))
    assert (model.n_stored, model.n_entries) == (light.n_stored, light.n_entries)


def test_an_item_sees_nothing_of_the_one_before_it():
    """The second item's first letters are predicted alike whatever the first one was."""
    model = NGram.fit(of_items([[1, 2], [3, 1, 1], [2, 2]]), NGramConfig(VOCAB, 4))
    after = model.after_each(np.array([[0, 1, 2, 0, 3], [0, 3, 3, 0, 3]]))
    assert np.array_equal(after[0, 3:], after[1, 3:])
    assert not np.array_equal(after[0, 2], after[1, 2])


def test_what_was_never_seen_is_infinitely_surprising_only_without_smoothing():
    train, dev = of_items([[1, 2], [1, 1]]), of_items([[2, 1]])
    bare = count_loss(NGram.fit(train, NGramConfig(VOCAB, 2, AddS(0.0))), dev)
    assert bare.nats == math.inf
    assert bare.n_impossible == 2  # 2 at the beginning, 1 after 2; the end after 1 was seen
    assert bare.perplexity == math.inf
    for smoothing in (AddS(0.01), WittenBell(), KneserNey()):
        found = count_loss(NGram.fit(train, NGramConfig(VOCAB, 2, smoothing)), dev)
        assert math.isfinite(found.nats)
        assert found.n_impossible == 0


def test_as_s_grows_every_token_becomes_as_likely_as_any():
    data = of_items([[1, 2], [1, 1, 3]])
    losses = [count_loss(Bigram.fit(data, BigramConfig(VOCAB, s)), data).nats for s in (0.0, 1.0, 100.0, 1e9)]
    assert losses == sorted(losses)
    assert losses[-1] == pytest.approx(math.log(VOCAB), abs=1e-6)


@settings(max_examples=30)
@given(data=DATA, s=st.sampled_from([0.0, 0.1, 1.0]))
def test_the_bigram_matrix_and_the_2_gram_are_one(data, s):
    matrix = Bigram.fit(data, BigramConfig(VOCAB, s))
    grams = NGram.fit(data, NGramConfig(VOCAB, 2, AddS(s)))
    assert matrix.of_each(data.tokens) == pytest.approx(grams.of_each(data.tokens), abs=1e-12)
    assert matrix.log_first == pytest.approx(grams.log_probabilities(np.zeros((1, 0), np.int64))[0], abs=1e-12)
    assert np.exp(matrix.log_table).sum(axis=1) == pytest.approx(np.ones(VOCAB))


def test_the_best_on_dev_is_kept_and_everything_tried_is_told():
    rng = random.Random(3)
    items = [[rng.randint(1, 3)] * rng.randint(2, 5) for _ in range(60)]
    train, dev = of_items(items[:50]), of_items(items[50:])
    choice = best_ngram(train, dev, VOCAB, orders=[1, 2, 3], smoothings=[AddS(0.0), AddS(1.0), KneserNey()])
    assert [(trial.order, trial.smoothing) for trial in choice.trials[:3]] == [
        (1, "maximum likelihood (s = 0)"),
        (1, "add-1"),
        (1, "modified Kneser–Ney"),
    ]
    assert len(choice.trials) == 9
    assert count_loss(choice.model, dev).nats == choice.best.dev == min(trial.dev for trial in choice.trials)
    assert (choice.model.grams.order, choice.model.smoothing.description) == choice.best[:2]


def test_sizes_full_and_kept():
    data = of_items([[1, 2, 3], [1, 2]])
    dense = NGram.fit(data, NGramConfig(VOCAB, 3, AddS(1.0)))
    assert (dense.n_entries, dense.n_stored) == (64, 64)
    sparse = NGram.fit(data, NGramConfig(VOCAB, 12, AddS(1.0)))
    assert sparse.n_entries == 4**12
    assert sparse.n_stored < 20


def test_bad_wishes_are_refused():
    data = of_items([[1, 2]])
    with pytest.raises(PellucidError, match="n is 0"):
        count(data, VOCAB, 0)
    with pytest.raises(PellucidError, match="past the limit of 100"):
        count(data, VOCAB, 101)
    with pytest.raises(PellucidError, match="nothing to count in 1 tokens"):
        count(stream([0]), VOCAB, 2)
    for s in (-1.0, math.nan, math.inf):
        with pytest.raises(PellucidError, match="s is "):
            AddS(s)
    with pytest.raises(PellucidError, match=r"discount is 1\.5"):
        KneserNey(1.5)
    with pytest.raises(PellucidError, match="Use ngram with n = 2"):
        Bigram.fit(stream([0, 1, 0]), BigramConfig(10_000))


def test_counts_are_the_same_however_often_chunks_are_joined(monkeypatch):
    draw = np.random.default_rng(3)
    side = Corpus(draw.integers(0, 90, 4000).astype(np.uint8), has_boundary=False)
    whole = count(side, 90, 12)
    monkeypatch.setattr("pellucid.models.counting.counts._CHUNK", 100)
    for most in (1, 500, 1 << 22):
        monkeypatch.setattr("pellucid.models.counting.counts.MOST_APART", most)
        for one, other in zip(count(side, 90, 12).levels, whole.levels, strict=True):
            assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("codes", "counts", "rows"))


@pytest.mark.parametrize("has_boundary", [True, False])
def test_contexts_that_come_again_are_worked_out_once(monkeypatch, has_boundary):
    rng = np.random.default_rng(3)
    tokens = np.append(rng.integers(0, 5, 400), 0)
    model = NGram.fit(Corpus(tokens, has_boundary), NGramConfig(5, order=4))
    asked, plain = [], NGram._distributions
    monkeypatch.setattr(NGram, "_distributions", lambda self, codes: asked.append(len(codes[0])) or plain(self, codes))
    contexts = rng.integers(0, 5, (2_000, 3))
    found = model.log_probabilities(contexts)
    assert sum(asked) <= 125  # contexts of three tokens, of five symbols
    one_by_one = np.concatenate([model.log_probabilities(row[None]) for row in contexts])
    assert np.array_equal(found, one_by_one)
