"""Texts that are held end to end are the list that they were made of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.decoding.novelty import Known, edit_distances
from pellucid.records import packed_texts
from pellucid.records.packed_texts import PackedTexts

TEXTS = st.lists(st.text(alphabet="ab\n é🙂\ud800", max_size=4), max_size=12)


@given(TEXTS, st.integers(-15, 15), st.integers(-15, 15), st.sampled_from([1, 2, -1]))
def test_it_is_the_list_that_it_was_made_of(texts, first, last, step):
    packed = PackedTexts.of(iter(texts))
    assert list(packed) == texts
    assert packed == texts
    assert len(packed) == len(texts)
    assert [packed[at] for at in range(-len(texts), len(texts))] == texts + texts
    assert packed[first:last:step] == texts[first:last:step]
    assert packed.count_different() == len(set(texts))
    assert all(text in packed for text in texts)
    assert ("abab" in packed) == ("abab" in texts)
    assert packed != [*texts, "one more"]


def test_pieces_meet_where_they_are_cut(monkeypatch):
    monkeypatch.setattr(packed_texts, "PIECE", 3)
    for n in range(8):
        texts = [f"item {number}" for number in range(n)]
        assert list(PackedTexts.of(texts)) == texts
        assert list(PackedTexts.of(texts)[1:5]) == texts[1:5]
    with pytest.raises(IndexError):
        PackedTexts.of(["a"])[1]


def test_it_is_shown_as_a_list():
    assert repr(PackedTexts.of(["a", "b"])) == "['a', 'b']"
    assert repr(PackedTexts.of(map(str, range(2000)))) == "['0', '1', '2', … 1,996 more, '1999']"


@pytest.mark.parametrize("most", [0, 100])
def test_the_nearest_is_the_same_whether_letters_are_kept_or_counted_again(monkeypatch, most):
    """Against a loop over all; letters of one item are more than a byte counts."""
    monkeypatch.setattr("pellucid.decoding.novelty.MOST_COUNTED", most)
    monkeypatch.setattr("pellucid.decoding.novelty.AT_ONCE", 3)
    items = ["emma", "mia", "emma", "olivia", "ava", "a" * 300, "aaron", "ann"]
    known = Known(items, ["dev"])
    for text in ("emna", "a" * 299, "oliva", "", "zzz", "emma", "dev"):
        distances = edit_distances([text], items)
        assert known.nearest(text)[1] == distances.min()
        assert items[int(distances.argmin())] == known.nearest(text)[0] or distances.min() > 0
    assert [known.where(text) for text in ("emma", "dev", "emm")] == ["train", "dev", "new"]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 1.0])
@pytest.mark.parametrize("has_newlines", [False, True])
def test_a_part_is_the_list_of_those_that_are_kept(share, has_newlines, monkeypatch):
    monkeypatch.setattr("pellucid.records.packed_texts.PIECE", 64)
    texts = ["a\nb" * (has_newlines and n % 7 == 0) + str(n * n % 91) for n in range(1000)]
    is_kept = np.random.default_rng(0).random(len(texts)) < share
    part = PackedTexts.of(texts).where(is_kept)
    kept = [text for text, is_in in zip(texts, is_kept, strict=True) if is_in]
    assert (len(part), list(part), part[:], part[3:9], part[::-2]) == (len(kept), kept, kept, kept[3:9], kept[::-2])
    assert "\n".join(part.joined()) == "\n".join(kept)
    assert part.count_different() == len(set(kept))
    assert [text in part for text in texts] == [text in set(kept) for text in texts]
    assert list(part.where(np.arange(len(part)) % 2 == 0)) == kept[::2]
    with pytest.raises(IndexError):
        part[len(kept)]
