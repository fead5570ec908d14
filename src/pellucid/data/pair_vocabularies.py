"""What the tokens of pairs are: sources are read letter by letter, and targets are written in one of three ways.

    letters    "Baum" → "Bäume"      B ä u m e
    words      "cat" → "K AE T"      K, AE, T: where targets are several words of a small set, as sounds are
    changes    "Baum" → "Bäume"      take 3 letters away, then ä u m e: where targets begin as long sources do

With changes, a network reads behind the source what the sources with the same ending became, so that it begins where
that simple model ends. For a pair of train this is told as if the pair had never been seen.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from pellucid.data.endings import EndingChange, Endings, change_of
from pellucid.data.vocabularies import (
    Characters,
    Vocabulary,
    damaged_vocabulary,
    require_ids,
    stored_letters,
    stored_tokens,
    unknown_symbol,
    vocabulary_from_json,
)

Texts = Sequence[tuple[str, str]]  # sources and targets

END = "⏎"  # of a source: how it ends often decides what it becomes
MOST_WORDS = 1_000  # that targets are written in, and
OFTEN = 20  # how often each occurs, on average, so that there is something to learn of each
SHORTER = 0.5  # of the letters, at most, that changes take
# Letters, on average, that a target shares with its source, from which on changes are better: German plurals (11) had
# 92.5 % in 800 steps, and letter by letter 85.0 % in 600; English plurals (8) 79.0 and 79.5 % in 250, past forms (6)
# 92.7 and 93.3 % in 300.
LONG_COPY = 9
LONGEST_TOLD, MOST_TOLD = 12, 4  # of an ending, its letters and how often it changed so: more is told as these


class PairVocabulary(Vocabulary):
    """Sources and targets as tokens. All letters of a source come first, in order."""

    n_beside = 0  # tokens of a source beside its letters, at most

    def encode_known(self, source: str, target: str) -> list[int]:
        """A source of train, without what this very pair has taught."""
        return self.encode(source)

    @abstractmethod
    def encode_target(self, source: str, target: str) -> list[int]:
        """What is to be said to a source."""

    @abstractmethod
    def decode_target(self, source: str, ids: Sequence[int]) -> str:
        """What was said to a source, as text."""

    def decode(self, ids: Sequence[int]) -> str:
        require_ids(ids, len(self.tokens))
        return "".join(self.tokens[i] for i in ids if i)


class LettersToLetters(PairVocabulary):
    """One alphabet for both.

    >>> vocabulary = LettersToLetters("abd")
    >>> vocabulary.encode("dab"), vocabulary.encode_target("dab", "bad")
    ([3, 1, 2], [2, 1, 3])
    """

    kind = "characters"

    def __init__(self, letters: Sequence[str]) -> None:
        super().__init__(letters, has_boundary=True)
        self.letters = Characters(letters)

    def encode(self, text: str, unknown: str = "error") -> list[int]:
        return self.letters.encode(text, unknown)

    def encode_target(self, source: str, target: str) -> list[int]:
        return self.letters.encode(target)

    def decode_target(self, source: str, ids: Sequence[int]) -> str:
        return self.decode(ids)

    def to_json(self) -> dict[str, Any]:
        return self.letters.to_json()


class LettersToWords(PairVocabulary):
    """The letters, the end of a source, and the words of targets.

    >>> vocabulary = LettersToWords("act", ["AE", "K", "T"])
    >>> vocabulary.tokens
    ['·', 'a', 'c', 't', '⏎', 'AE', 'K', 'T']
    >>> vocabulary.encode("cat"), vocabulary.encode_target("cat", "K AE T"), vocabulary.decode_target("cat", [6, 5, 7])
    ([2, 1, 3, 4], [6, 5, 7], 'K AE T')
    """

    kind = "letters-to-words"
    n_beside = 1

    def __init__(self, letters: Sequence[str], words: Sequence[str]) -> None:
        super().__init__([*letters, END, *words], has_boundary=True)
        self.letters, self.end = Characters(letters), len(letters) + 1
        self.words = {word: number for number, word in enumerate(words, start=self.end + 1)}

    def encode(self, text: str, unknown: str = "error") -> list[int]:
        return [*self.letters.encode(text, unknown), self.end]

    def encode_target(self, source: str, target: str) -> list[int]:
        try:
            return [self.words[word] for word in target.split(" ")]
        except KeyError as error:
            raise unknown_symbol(error.args[0], self.words, "word") from None

    def decode_target(self, source: str, ids: Sequence[int]) -> str:
        require_ids(ids, len(self.tokens))
        return " ".join(self.tokens[i] for i in ids if i)

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "letters": self.letters.tokens[1:], "words": list(self.words)}


class LettersToChanges(PairVocabulary):
    """The letters, the end of a source, how many letters are taken away, and how well an ending is known.

    pairs: of train, which the endings are known from.

    >>> vocabulary = LettersToChanges("acdegiosty", 3, [("city", "cities"), ("dog", "dogs"), ("cat", "cats")])
    >>> [vocabulary.tokens[i] for i in vocabulary.encode_target("city", "cities")]
    ['−1', 'i', 'e', 's']
    >>> [vocabulary.tokens[i] for i in vocabulary.encode("goat")]  # "at" is known, once, and then "s" was added
    ['g', 'o', 'a', 't', '⏎', '−0', 's', 'ending 2', 'seen 1', 'always']
    >>> vocabulary.decode_target("goat", vocabulary.encode_target("goat", "goats"))
    'goats'
    """

    kind = "letters-to-changes"

    def __init__(self, letters: Sequence[str], longest_cut: int, pairs: Texts) -> None:
        self.letters, self.end, self.pairs = Characters(letters), len(letters) + 1, pairs
        self.longest_cut = longest_cut
        self.endings = Endings(pairs)
        cuts = ["−all", *(f"−{n}" for n in range(longest_cut + 1))]
        told = [f"ending {n}" for n in range(LONGEST_TOLD + 1)] + [f"seen {n}" for n in range(MOST_TOLD + 1)]
        super().__init__([*letters, END, *cuts, *told, "always", "mostly"], has_boundary=True)
        self.first_told = self.end + 1 + len(cuts)
        self.n_beside = 5 + max((len(change.added) for change in self.endings.known), default=0)

    def encode(self, text: str, unknown: str = "error") -> list[int]:
        return self._with_proposal(text, None, unknown)

    def encode_known(self, source: str, target: str) -> list[int]:
        return self._with_proposal(source, target, "error")

    def _with_proposal(self, source: str, target: str | None, unknown: str) -> list[int]:
        found = self.endings.propose(source, target)
        ending = self.first_told + min(found.n_letters, LONGEST_TOLD)
        seen = self.first_told + LONGEST_TOLD + 1 + min(found.n_times, MOST_TOLD)
        sure = len(self.tokens) - 2 + (not found.is_always)
        return [*self.letters.encode(source, unknown), self.end, *self._encode_change(found.change), ending, seen, sure]

    def _encode_change(self, change: EndingChange) -> list[int]:
        return [self.end + 2 + change.cut, *self.letters.encode(change.added)]

    def encode_target(self, source: str, target: str) -> list[int]:
        return self._encode_change(change_of(source, target))

    def decode_target(self, source: str, ids: Sequence[int]) -> str:
        """An answer that does not begin with a cut is a whole target; what is no letter in it is left out."""
        require_ids(ids, len(self.tokens))
        cut = ids[0] - self.end - 2 if ids and self.end < ids[0] < self.first_told else -1
        return EndingChange(cut, "".join(self.tokens[i] for i in ids if 0 < i < self.end)).apply(source)

    def to_json(self) -> dict[str, Any]:
        pairs = [list(pair) for pair in self.pairs]
        stored = {"letters": self.letters.tokens[1:], "longest_cut": self.longest_cut, "pairs": pairs}
        return {**super().to_json(), **stored}


def words_of_targets(targets: Sequence[str], *, is_asked: bool = False) -> list[str]:
    """The words that targets are written in, sorted; none where they are better written letter by letter.

    Words are better where there are few, each of them occurs often, and a target has several, with one space between
    two. is_asked: they are wanted whatever is better.

    >>> words_of_targets(["K AE T", "T AE K"] * 20), words_of_targets(["cat", "the cat"])
    (['AE', 'K', 'T'], [])
    """
    counts: dict[str, int] = {}
    for target in targets:
        for word in target.split(" "):
            counts[word] = counts.get(word, 0) + 1
            if not is_asked and (not word or len(counts) > MOST_WORDS):
                return []
    if is_asked:
        return sorted(counts)
    n_words = sum(counts.values())
    is_for_words = n_words >= 2 * len(targets) and n_words >= OFTEN * len(counts)
    return sorted(counts) if is_for_words else []


def are_changes_better(pairs: Texts) -> bool:
    """Whether targets begin as their sources do, and so long that to copy them letter by letter is slow to learn.

    >>> are_changes_better([("Autobahnbrücke", "Autobahnbrücken")]), are_changes_better([("city", "cities")])
    (True, False)
    """
    n_added = sum(len(change_of(source, target).added) for source, target in pairs)
    n_letters = sum(len(target) for _, target in pairs)
    is_long = n_letters - n_added >= LONG_COPY * len(pairs)
    return is_long and n_added + len(pairs) <= SHORTER * (n_letters + len(pairs))


def pair_vocabulary_from_json(stored: Any) -> PairVocabulary:
    """The vocabulary of pairs that `to_json` described.

    >>> pair_vocabulary_from_json(LettersToWords("at", ["K"]).to_json()).encode("at")
    [1, 2, 3]
    """
    kind = stored.get("kind") if isinstance(stored, dict) else None
    if kind == LettersToWords.kind:
        return LettersToWords(stored_letters(stored, "letters"), stored_tokens(stored, "words"))
    if kind == LettersToChanges.kind:
        pairs, longest_cut = stored.get("pairs"), stored.get("longest_cut")
        is_texts = isinstance(pairs, list) and all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair) for pair in pairs
        )
        if not is_texts or not isinstance(longest_cut, int) or not 0 <= longest_cut < 1 << 16:
            raise damaged_vocabulary("its pairs are no list of sources and targets, or its cuts no number")
        return LettersToChanges(stored_letters(stored, "letters"), longest_cut, [(pair[0], pair[1]) for pair in pairs])
    found = vocabulary_from_json(stored)
    if not isinstance(found, Characters) or not found.has_boundary:
        raise damaged_vocabulary(f"it is one of {found.kind}, and not of pairs")
    return LettersToLetters(found.tokens[1:])
