"""How pairs become tokens: letter by letter, in words of a small set, or as changes of their sources."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.at_length import examples

from pellucid.data import PairsData
from pellucid.data.endings import EndingChange, Endings, change_of
from pellucid.data.options import DataOptions
from pellucid.data.pair_vocabularies import (
    LettersToChanges,
    LettersToLetters,
    LettersToWords,
    pair_vocabulary_from_json,
    words_of_targets,
)
from pellucid.data.prepare.tokens import pair_sides
from pellucid.errors import PellucidError
from pellucid.runs import open_run
from pellucid.training.callbacks import Callbacks
from pellucid.training.inference.prediction import Predictor, read_examples
from pellucid.training.options import TrainOptions
from pellucid.training.run import train_run

SOUNDS = {"a": "AH", "b": "B", "c": "S EY", "d": "D", "e": "IY1"}
WORDS = [a + b + c + d for a in "abcde" for b in "abcde" for c in "abcde" for d in "abcde"][::3]
SPOKEN = [(word, " ".join(SOUNDS[letter] for letter in word)) for word in WORDS]
PLURALS = [(word, word[:-1] + "ier" if word.endswith("a") else word + "s") for word in WORDS]
COMPOUNDS = [(f"bedeckbar{source}", f"bedeckbar{target}") for source, target in PLURALS]


def some(pairs) -> PairsData:
    return PairsData("some", pairs, because="", fingerprint="")


texts = st.text("abcß", min_size=1, max_size=6)


def test_targets_are_written_as_suits_them():
    for pairs, kind in (
        (SPOKEN, LettersToWords),
        (COMPOUNDS, LettersToChanges),
        (PLURALS, None),
        (list(zip(WORDS, WORDS[::-1], strict=True)), None),
    ):
        assert type(pair_sides(some(pairs)).vocabulary) is (kind or LettersToLetters)
    # Words that are each seen a few times are no small set, and one word is a label.
    assert words_of_targets([f"the {word}" for word in WORDS]) == []
    assert words_of_targets(["yes", "no"] * 50) == []
    assert words_of_targets(["a  b"] * 50) == []
    assert type(pair_sides(some(SPOKEN), "letters").vocabulary) is LettersToLetters
    with pytest.raises(PellucidError, match="way to write targets"):
        pair_sides(some(SPOKEN), "sounds")


@pytest.mark.parametrize("targets", ["letters", "words", "changes"])
def test_what_is_written_is_read_again_and_the_vocabulary_is_kept(targets):
    sides = pair_sides(some([*SPOKEN, ("abcdeabcde", "B")]), targets)
    again = pair_vocabulary_from_json(json.loads(json.dumps(sides.vocabulary.to_json())))
    assert again.tokens == sides.vocabulary.tokens
    for side in ("train", "dev", "test"):
        for (source, target), (read, written) in zip(sides.texts[side], getattr(sides, side), strict=True):
            assert again.decode_target(source, written) == target
            assert len(read) <= sides.longest_source
            assert len(written) <= sides.longest_target
            if side != "train":
                assert again.encode(source) == read


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(texts, texts), min_size=2, max_size=12), st.integers(0, 11))
def test_a_pair_of_train_is_proposed_what_the_others_say(pairs, left_out):
    """Leaving a pair out of the counts is the same as never having counted it, but for which of equals came first."""
    left_out %= len(pairs)
    source, target = pairs[left_out]
    found = Endings(pairs).propose(source, target)
    others = Endings(pairs[:left_out] + pairs[left_out + 1 :])
    wanted = others.propose(source)
    assert (found.n_letters, found.n_times, found.is_always) == (wanted.n_letters, wanted.n_times, wanted.is_always)
    if found.change != wanted.change:
        assert others.ranked[source[len(source) - found.n_letters :]][3] == found.n_times


def test_any_tokens_are_some_answer():
    vocabulary = LettersToChanges("abc", 2, [("ab", "ac")])
    assert vocabulary.decode_target("ab", vocabulary.encode_target("ab", "ac")) == "ac"
    for ids in ([], [1], [1, 2, 3], list(range(1, len(vocabulary)))):
        assert isinstance(vocabulary.decode_target("a", ids), str)
    assert EndingChange(5, "x").apply("abc") == "x"
    assert change_of("abc", "abd").apply("abc") == "abd"


@pytest.mark.parametrize(
    "harm", [{"pairs": [["a"]]}, {"pairs": "ab"}, {"longest_cut": -1}, {"letters": ["ab"]}, {"kind": "bytes"}]
)
def test_a_damaged_vocabulary_is_refused(harm):
    stored = {**LettersToChanges("abc", 2, [("ab", "ac")]).to_json(), **harm}
    with pytest.raises(PellucidError, match="the stored vocabulary is damaged"):
        pair_vocabulary_from_json(stored)


@pytest.mark.parametrize(("pairs", "longest"), [(SPOKEN, 4), (COMPOUNDS, 13)])
def test_a_run_answers_in_words_and_in_changes(tmp_path, pairs, longest):
    """A few steps are enough to see that what is trained on, kept and predicted with is one vocabulary."""
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    options = TrainOptions(steps=4, size="tiny", kind="pairs", threads=1)
    report = train_run(DataOptions(str(file), kind="pairs"), options, tmp_path / "run", Callbacks())
    assert set(report.answers.metrics) == {
        "exact match",
        "edit distance",
        "tokens right" if pairs is SPOKEN else "letters right",
    }
    run = open_run(tmp_path / "run")
    (found,) = Predictor(run).predict(read_examples(Predictor(run), [], text="ac")).predictions
    assert set(found.answer) <= {letter for _, target in pairs for letter in target}
    with pytest.raises(PellucidError, match=f"20 letters, and the network reads {longest}"):
        read_examples(Predictor(run), [], text="abcd" * 5)
