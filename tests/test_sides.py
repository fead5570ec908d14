"""Data as three sides of tokens."""

import numpy as np
import pytest

from pellucid.data import open_data
from pellucid.data.prepare.tokens import Corpus, split_sequences


def test_every_item_stands_on_one_side_and_comes_back():
    data = open_data("names")
    sides = split_sequences(data)
    assert sorted([*sides.train_items, *sides.dev_items, *sides.test_items]) == sorted(data.items)
    assert not set(sides.train_items) & (set(sides.dev_items) | set(sides.test_items))
    for side, items in ((sides.train, sides.train_items), (sides.dev, sides.dev_items), (sides.test, sides.test_items)):
        assert side.n_predicted == sum(len(item) + 1 for item in items)
        assert int((side.tokens == 0).sum()) == len(items) + 1


def test_a_text_keeps_its_order(tmp_path):
    text = "To be, or not to be: that is the question. " * 50
    (tmp_path / "hamlet.txt").write_text(text)
    sides = split_sequences(open_data(tmp_path / "hamlet.txt", kind="text"))
    joined = np.concatenate([sides.train.tokens, sides.dev.tokens, sides.test.tokens])
    assert sides.vocabulary.decode(joined.tolist()) == text
    assert len(sides.train.tokens) == int(0.8 * len(text))


@pytest.mark.parametrize("tokens", ["characters", "bytes", "bpe", "words"])
def test_characters_per_token_by_counting(tokens):
    sides = split_sequences(open_data("names"), tokens)
    n_characters = sum(len(item) + 1 for item in sides.dev_items)
    found = sides.characters_per_token(sides.dev) * sides.dev.n_predicted
    assert round(found) == n_characters


def test_pieces_of_words_are_learned_from_train_alone():
    from pellucid.data import BPE
    from pellucid.data.prepare.tokens import BPE_SIZE

    sides = split_sequences(open_data("names"), "bpe")
    assert sides.vocabulary.tokens == BPE.train(sides.train_items, BPE_SIZE).tokens


def test_an_empty_side_has_nothing_to_predict():
    assert Corpus(np.zeros(0, np.uint8), True).n_predicted == 0
