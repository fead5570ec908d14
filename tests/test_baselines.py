"""What counting reaches, beside the commands' own figures and by hand."""

import math

import pytest

from pellucid.data import open_data
from pellucid.data.prepare.tokens import split_sequences
from pellucid.training.tasks.baselines import sequence_baselines


@pytest.fixture(scope="module")
def sides():
    return split_sequences(open_data("names"))


def test_the_bar_on_the_embedded_names(sides):
    found = {counted.rung.name: counted.rung for counted in sequence_baselines(sides)}
    assert list(found) == ["uniform", "unigram", "bigram", "Kneser–Ney 6-gram"]
    assert found["uniform"].dev == pytest.approx(math.log(27))
    # Chosen on dev; test is not read while that is done.
    assert found["Kneser–Ney 6-gram"].dev == pytest.approx(1.9584, abs=1e-4)
    assert all(rung.test is None for rung in found.values())
    for rung in found.values():
        assert rung.bits_per_character == pytest.approx(rung.dev / math.log(2))


def test_unigrams_by_hand(sides):
    counted = next(counted for counted in sequence_baselines(sides) if counted.rung.name == "unigram")
    items, tested = sides.train_items, sides.test_items
    letters = "".join(items)
    total = len(letters) + len(items) + 27
    share = {letter: (letters.count(letter) + 1) / total for letter in set(letters)}
    closing = (len(items) + 1) / total
    nats = -sum(math.log(share[letter]) for item in tested for letter in item) - len(tested) * math.log(closing)
    assert counted.with_test().test == pytest.approx(nats / sum(len(item) + 1 for item in tested))
