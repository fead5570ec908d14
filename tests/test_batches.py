"""Batches: every item once an epoch, hardly any padding, and the same for the same seed and step."""

import itertools

import numpy as np
import pytest
import torch

from pellucid.data import Characters, open_data
from pellucid.data.prepare import encode_list
from pellucid.data.prepare.tokens import Corpus
from pellucid.training.rng import derive_seed, numpy_rng, seed_torch, torch_rng
from pellucid.training.tasks.batches import IGNORED, LONGEST_OF, Batch, Items, ListBatches, TextBatches, make_batches


def list_side(n: int = 50, seed: int = 0) -> Corpus:
    """Items of random length, each beginning with letters that are its own number in base 9."""
    draw = np.random.default_rng(seed)
    stream = [0]
    for i in range(n):
        name = [i // 9 % 9 + 1, i % 9 + 1]
        stream += [*name, *draw.integers(1, 10, draw.integers(0, 8)).tolist(), 0]
    return Corpus(np.array(stream, np.uint8), True)


def items_of(batch: Batch) -> list[tuple[int, ...]]:
    """The items of a batch, each from its tokens and checked against its targets."""
    found = []
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        real = [target for target in targets if target != IGNORED]
        assert real[-1] == 0
        assert tokens[: len(real)] == [0, *real[:-1]]
        assert set(tokens[len(real) :]) <= {0}
        assert set(targets[len(real) :]) <= {IGNORED}
        found.append(tuple(real[:-1]))
    return found


@pytest.mark.parametrize(("by_length", "is_mixed"), [(True, False), (True, True), (False, False)])
@pytest.mark.parametrize("size", [1, 7, 10, 50, 500])
def test_every_item_once_an_epoch(size, by_length, is_mixed):
    side = list_side()
    batches = make_batches(side, size, context=12, seed=3, by_length=by_length, is_mixed=is_mixed)
    assert batches.per_epoch == -(-50 // size)
    ends = np.flatnonzero(side.tokens == 0)
    wanted = sorted(tuple(side.tokens[a + 1 : b].tolist()) for a, b in itertools.pairwise(ends))
    for epoch in range(3):
        steps = range(epoch * batches.per_epoch + 1, (epoch + 1) * batches.per_epoch + 1)
        drawn = [batches.batch(step) for step in steps]
        assert sorted(item for batch in drawn for item in items_of(batch)) == wanted
        assert sum(batch.n_tokens for batch in drawn) == side.n_predicted
        assert all(batch.n_tokens == int((batch.targets != IGNORED).sum()) for batch in drawn)
        # Each has its share of the tokens, to within an item at either end, or a few of other lengths.
        share, slack = side.n_predicted / batches.per_epoch, 3 if is_mixed else 2
        assert size == 1 or all(abs(batch.n_tokens - share) <= slack * 10 for batch in drawn)


def test_a_batch_is_a_pure_function_of_seed_and_step():
    side = list_side()
    forth, back = (make_batches(side, 8, 12, seed=1) for _ in range(2))
    steps = list(range(1, 40))
    one = {step: forth.batch(step) for step in steps}
    other = {step: back.batch(step) for step in reversed(steps)}
    assert all(torch.equal(a, b) for step in steps for a, b in zip(one[step][:2], other[step][:2], strict=True))
    elsewhere = make_batches(side, 8, 12, seed=2)
    assert any(items_of(elsewhere.batch(step)) != items_of(one[step]) for step in steps[:7])
    # The second epoch is another order.
    assert [items_of(one[step]) for step in range(1, 8)] != [items_of(one[step]) for step in range(8, 15)]


def test_where_rows_meet_a_batch_is_a_fair_sample():
    side = list_side(n=80)

    def spread(by_length: bool) -> float:
        batches = make_batches(side, 10, 12, seed=1, by_length=by_length)
        lengths = [[len(item) for item in items_of(batches.batch(step))] for step in range(1, 9)]
        return float(np.std([np.mean(each) for each in lengths]))  # of the batches' mean lengths

    # Of 10 fair draws the mean deviates by 2.3/√10 = 0.7; by length the means are spread like the items.
    assert spread(by_length=False) < 1.4 < spread(by_length=True)


def test_of_a_mixed_list_only_the_longest_items_have_batches_of_their_own():
    """A batch of one length teaches where items of that length end, and the next one of another undoes it."""
    side = list_side(n=320)
    batches = make_batches(side, 10, 12, seed=1, is_mixed=True)
    lengths = [[len(item) for item in items_of(batches.batch(step))] for step in range(1, 33)]
    for first in range(0, 32, LONGEST_OF):
        *others, longest = sorted(lengths[first : first + LONGEST_OF], key=np.mean)
        assert min(longest) >= max(max(one) for one in others)
        assert max(len(set(one)) for one in others) > 2


@pytest.mark.parametrize(("is_mixed", "least"), [(False, 0.98), (True, 0.75)])
def test_hardly_anything_is_padded(is_mixed, least):
    names = open_data("names").items
    corpus = encode_list(names, Characters.of(names))
    batches = ListBatches(Items(corpus.tokens, corpus.boundaries), batch_size=128, seed=0, is_mixed=is_mixed)
    drawn = [batches.batch(step) for step in range(1, batches.per_epoch + 1)]
    n_cells = sum(batch.tokens.numel() for batch in drawn)
    assert sum(batch.n_tokens for batch in drawn) == corpus.n_predicted
    assert corpus.n_predicted / n_cells > least


def test_windows_of_a_text_follow_one_another():
    side = Corpus(np.arange(101, dtype=np.uint8), False)
    batches = make_batches(side, 4, context=10, seed=0)
    assert batches.per_epoch == 3  # 10 windows
    firsts = []
    for epoch in range(6):
        drawn = [batches.batch(epoch * 3 + step) for step in (1, 2, 3)]
        windows = sorted(row for batch in drawn for row in batch.tokens.tolist())
        assert all(torch.equal(batch.targets, batch.tokens + 1) for batch in drawn)
        assert len(windows) == 10
        assert all(later[0] - row[0] == 10 for row, later in itertools.pairwise(windows[:-1]))
        assert windows[-1][-1] <= 99
        firsts.append(windows[0][0])
    assert len(set(firsts)) > 1
    assert all(0 <= first < 10 for first in firsts)


def test_a_text_shorter_than_its_context_is_one_window():
    batch = TextBatches(np.array([3, 1, 2], np.uint8), batch_size=32, context=64, seed=0).batch(5)
    assert (batch.tokens.tolist(), batch.targets.tolist(), batch.n_tokens) == ([[3, 1]], [[1, 2]], 2)


@pytest.mark.parametrize("side", [list_side(), Corpus(np.arange(101, dtype=np.uint8), False)], ids=["list", "text"])
def test_what_is_counted_comes_with_the_tokens_it_comes_after(side):
    """The stand-in for counts says where it was asked, and the token that stands there."""

    def counted(places):
        return torch.from_numpy(np.stack([places, side.tokens[places]], axis=-1))

    batches = make_batches(side, 8, context=10, seed=0, counted=counted)
    asked = []
    for step in range(1, batches.per_epoch + 1):
        batch = batches.batch(step)
        is_real = batch.targets != IGNORED
        places, tokens = batch.counted.unbind(-1)
        assert torch.equal(batch.counted_in_place()[is_real], batch.counted)
        assert not batch.counted_in_place()[~is_real].any()
        assert torch.equal(tokens, batch.tokens[is_real])
        assert side.tokens[places + 1].tolist() == batch.targets[is_real].tolist()
        asked += places.tolist()
    if side.has_boundary:
        assert sorted(asked) == list(range(side.n_predicted))
    assert make_batches(side, 8, context=10, seed=0).batch(1).counted is None


def test_chance_is_a_function_of_seed_step_and_purpose():
    assert derive_seed(0, 1, "batches") == 3783679012601048814
    assert numpy_rng(0, 1, "a").random() == numpy_rng(0, 1, "a").random() != numpy_rng(0, 1, "b").random()
    one, other = (torch.rand(3, generator=torch_rng(5, step, "a")) for step in (1, 2))
    assert not torch.equal(one, other)


def test_drawing_leaves_torchs_generator_as_it_was():
    torch.manual_seed(0)
    wanted = torch.rand(2)
    torch.manual_seed(0)
    with seed_torch(1, 2, "dropout"):
        inside = torch.rand(2)
    assert torch.equal(torch.rand(2), wanted)
    with seed_torch(1, 2, "dropout"):
        assert torch.equal(torch.rand(2), inside)
