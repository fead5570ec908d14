"""What counting reaches, beside the commands' own figures and by hand."""

import itertools
import math

import pytest

from pellucid.data.options import DataOptions
from pellucid.training.options import TrainOptions
from pellucid.training.tasks import open_task
from pellucid.training.tasks.baselines import ALIKE, TranslationMemory, _letter_pairs


@pytest.fixture(scope="module")
def task():
    return open_task(DataOptions("names"))


@pytest.fixture(scope="module")
def baselines(task):
    return {one.rung.name: one for one in task.fit_baselines(TrainOptions())}


def test_the_bar_on_the_embedded_names(baselines):
    found = {name: one.rung for name, one in baselines.items()}
    assert list(found) == ["uniform", "unigram", "bigram", "Kneser–Ney 6-gram"]
    assert found["uniform"].dev == pytest.approx(math.log(27))
    # Chosen on dev; test is not read while that is done.
    assert found["Kneser–Ney 6-gram"].dev == pytest.approx(1.9584, abs=1e-4)
    assert all(rung.test is None for rung in found.values())
    for rung in found.values():
        assert rung.bits_per_character == pytest.approx(rung.dev / math.log(2))


def test_unigrams_by_hand(task, baselines):
    items, tested = task.sides.train_items, task.sides.test_items
    letters = "".join(items)
    total = len(letters) + len(items) + 27
    share = {letter: (letters.count(letter) + 1) / total for letter in set(letters)}
    closing = (len(items) + 1) / total
    nats = -sum(math.log(share[letter]) for item in tested for letter in item) - len(tested) * math.log(closing)
    assert baselines["unigram"].with_test().test == pytest.approx(nats / sum(len(item) + 1 for item in tested))


def test_item_by_item_gives_the_same_loss(task, baselines):
    for one in baselines.values():
        for side in ("dev", "test"):
            result = one.evaluate(side)
            assert len(result.units.merits) == len(getattr(task.sides, f"{side}_items"))
            assert -result.units.merits.sum() / result.units.sizes.sum() == pytest.approx(result.loss)


def test_the_sources_most_alike_are_those_that_sorting_all_would_give():
    words = [
        "".join(letters) for letters in itertools.product("abc", repeat=5)
    ]  # with very many that are equally alike
    memory = TranslationMemory([(word, word.upper()) for word in words[::2]], otherwise="?")
    for source in words[1::20]:
        pairs = _letter_pairs(source)
        shared = [len(pairs & _letter_pairs(other)) for other in memory.sources]
        likeness = [
            n / (len(_letter_pairs(other)) + len(pairs)) for n, other in zip(shared, memory.sources, strict=True)
        ]
        all_sorted = sorted((-like, place) for place, like in enumerate(likeness) if like)
        assert memory._alike(source).tolist() == [place for _, place in all_sorted[:ALIKE]]
