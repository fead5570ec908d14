"""Lists, texts and pairs as tokens, on three sides: train to learn from, dev to choose by, test to be read at the end.

Tokens stand in flat arrays of the smallest integer type that holds them. Only the alphabet is everyone's; pieces of
words are learned from train alone.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.endings import change_of
from pellucid.data.kinds import TARGETS, ListData, PairsData, TextData
from pellucid.data.pair_vocabularies import (
    LettersToChanges,
    LettersToLetters,
    LettersToWords,
    PairVocabulary,
    Texts,
    are_changes_better,
    words_of_targets,
)
from pellucid.data.prepare.examples import places_by_hash
from pellucid.data.splits import FRACTIONS, SIDES, training_cuts
from pellucid.data.splits.assignment import split_list, training_sides
from pellucid.data.splits.hashing import item_hashes
from pellucid.data.vocabularies import (
    BPE,
    ITEMS_AT_ONCE,
    Bytes,
    Characters,
    Vocabulary,
    Words,
    unknown_symbol,
    whole_words,
)
from pellucid.errors import PellucidError, require_one_of

Array = NDArray[Any]
TokenPairs = list[tuple[list[int], list[int]]]  # source and target, without boundaries

BPE_SIZE = 512  # pieces; small texts have no use for more
DEFAULT_CONTEXT = 64  # tokens in a window of a text
# Above this many bytes of tokens they go to a file without a name, mapped into memory, and not into memory itself.
MOST_IN_MEMORY = 64 << 20


@dataclass(frozen=True)
class Corpus:
    """Tokens, one after another; one side of the data, or all of them.

    For a list the stream is `0 a… 0 b… 0`: one boundary between items, so that each closes one and opens the next.
    Where the vocabulary has two boundaries, that 0 is read as <S> and predicted as <E>, which is `closing`. Running
    text has no boundary.
    """

    tokens: Array = field(repr=False)
    has_boundary: bool
    closing: int = 0  # the token that is predicted where an item ends

    @property
    def targets(self) -> Array:
        """What is predicted: every token but the first, with the one that closes an item where it ends."""
        return label_ends(self.tokens[1:], self.closing)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def n_predicted(self) -> int:
        """How many tokens are predicted: all but the first, the closing boundary of each item among them."""
        return max(0, len(self.tokens) - 1)

    @cached_property
    def boundaries(self) -> NDArray[Any]:
        """The places of all boundaries, one more than there are items; none in running text. Of few bytes each."""
        if not self.has_boundary:
            return np.zeros(0, np.int32)
        return np.flatnonzero(self.tokens == 0).astype(np.int32 if len(self.tokens) < 1 << 31 else np.int64)

    @property
    def starts(self) -> NDArray[Any]:
        """The place of each item's opening boundary; none in running text."""
        return self.boundaries[:-1]

    @property
    def longest_item(self) -> int:
        """Tokens of the longest item, without boundaries; 0 in running text."""
        return int(np.diff(self.starts, append=len(self.tokens) - 1).max(initial=1)) - 1 if self.has_boundary else 0


def label_ends(tokens: Array, closing: int) -> Array:
    """tokens that are predicted: where an item ends, the token that closes it in place of the boundary, 0.

    >>> label_ends(np.array([1, 2, 0, 1, 0]), closing=3).tolist()
    [1, 2, 3, 1, 3]
    """
    return np.where(tokens == 0, tokens.dtype.type(closing), tokens) if closing else tokens


def take_part(side: Corpus, n_predicted: int) -> Corpus:
    """As much of a side as that, spread evenly over it: whole items of a list, or eight stretches of a text.

    >>> take_part(Corpus(np.array([0, 1, 0, 2, 2, 0, 3, 0, 4, 0]), True), 5).tokens.tolist()
    [0, 1, 0, 3, 0]
    """
    if n_predicted >= side.n_predicted:
        return side
    if not side.has_boundary:
        length = max(2, n_predicted // 8)
        starts = np.linspace(0, len(side.tokens) - length, 8).astype(int)
        return Corpus(np.concatenate([side.tokens[start : start + length] for start in starts]), False)
    ends = np.flatnonzero(side.tokens == 0)
    every = -(-side.n_predicted // n_predicted)
    items = [side.tokens[ends[i] : ends[i + 1]] for i in range(0, len(ends) - 1, every)]
    return Corpus(np.concatenate([*items, side.tokens[:1]]), True, side.closing)


def token_type(vocab_size: int) -> str:
    """The smallest unsigned type that holds every token.

    >>> token_type(27), token_type(257), token_type(100_000)
    ('uint8', 'uint16', 'uint32')
    """
    return "uint8" if vocab_size <= 1 << 8 else "uint16" if vocab_size <= 1 << 16 else "uint32"


def encode_list(items: ListData | Sequence[str], vocabulary: Vocabulary, unknown: str = "error") -> Corpus:
    """The items between boundaries.

    >>> from pellucid.data.vocabularies import Characters
    >>> corpus = encode_list(["ab", "b"], Characters.of(["ab"]))
    >>> corpus.tokens.tolist(), corpus.starts.tolist(), corpus.n_predicted
    ([0, 1, 2, 0, 2, 0], [0, 3], 5)
    """
    if not vocabulary.has_boundary:
        raise PellucidError("a list needs a vocabulary with a boundary", fix="Make it with has_boundary=True")
    rest = iter(items.items if isinstance(items, ListData) else items)
    opening = np.zeros(1, dtype=token_type(len(vocabulary)))
    pieces = [opening]
    while piece := list(islice(rest, ITEMS_AT_ONCE)):
        pieces.append(_encode_items(piece, vocabulary, unknown))
    return Corpus(np.concatenate(pieces), has_boundary=True, closing=vocabulary.closing)


def _encode_items(items: Sequence[str], vocabulary: Vocabulary, unknown: str) -> Array:
    """Items, each with the boundary that closes it."""
    if isinstance(vocabulary, Characters) and unknown == "error":
        lengths = np.fromiter((len(item) for item in items), dtype=np.int64, count=len(items))
        letters = _encode("".join(items), vocabulary, unknown)
    else:
        each = [vocabulary.encode(item, unknown) for item in items]
        lengths = np.fromiter((len(ids) for ids in each), dtype=np.int64, count=len(items))
        letters = np.fromiter((i for ids in each for i in ids), dtype=token_type(len(vocabulary)))
    tokens = np.zeros(len(letters) + len(items), dtype=token_type(len(vocabulary)))
    is_letter = np.ones(len(tokens), dtype=bool)
    is_letter[np.cumsum(lengths + 1) - 1] = False
    tokens[is_letter] = letters
    return tokens


def encode_text(text: TextData | str, vocabulary: Vocabulary, unknown: str = "error") -> Corpus:
    """Running text as tokens, piece by piece, so that memory stays flat however long it is."""
    dtype = token_type(len(vocabulary))
    pieces = iter([text]) if isinstance(text, str) else text.characters()
    is_by_letter = isinstance(vocabulary, Characters | Bytes)
    arrays = (
        _encode(piece, vocabulary, unknown) for piece in (pieces if is_by_letter else whole_words(pieces, joined=True))
    )
    return Corpus(_collect(arrays, dtype), has_boundary=False)


def _encode(text: str, vocabulary: Vocabulary, unknown: str) -> Array:
    """One piece of text as an array of the smallest type."""
    dtype = token_type(len(vocabulary))
    if isinstance(vocabulary, Bytes):
        content = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
        wide: Array = content.astype(dtype)
        return wide + 1 if vocabulary.has_boundary else wide
    if not isinstance(vocabulary, Characters):
        return np.array(vocabulary.encode(text, unknown), dtype=dtype)
    if text.isascii():
        codes: Array = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
        size = 128
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        size = 0x110000
    # One place more than there are tokens stands for "never seen".
    never = len(vocabulary)
    table = np.full(size, never, dtype=token_type(never + 1))
    for symbol, i in vocabulary.index.items():
        if ord(symbol) < size:
            table[ord(symbol)] = i
    tokens: Array = table[codes]
    strange = tokens == never
    if strange.any():
        if unknown == "error":
            raise unknown_symbol(text[int(np.argmax(strange))], vocabulary.index)
        tokens = tokens[~strange]
    return tokens.astype(dtype, copy=False)


def _collect(arrays: Iterator[Array], dtype: str) -> Array:
    """The arrays end to end: in memory while they are small, else in a nameless file that is mapped."""
    held: list[Array] = []
    n_bytes = 0
    for array in arrays:
        held.append(array)
        n_bytes += array.nbytes
        if n_bytes > MOST_IN_MEMORY:
            break
    else:
        return np.concatenate(held) if held else np.zeros(0, dtype=dtype)
    try:
        with tempfile.TemporaryFile() as file:
            for array in held:
                file.write(array.tobytes())
            held.clear()
            for array in arrays:
                file.write(array.tobytes())
            file.flush()
            mapped: Array = np.memmap(file, dtype=dtype, mode="r")
            return mapped
    except OSError as error:
        raise PellucidError(
            f"the tokens could not be kept in {tempfile.gettempdir()}: {error.strerror}",
            fix="Make room there, or set TMPDIR to a folder with room",
        ) from error


@dataclass(frozen=True)
class SequenceSides:
    """The data, divided, and in tokens."""

    vocabulary: Vocabulary
    train: Corpus
    dev: Corpus
    test: Corpus
    train_items: Sequence[str]  # of a list; empty for running text
    dev_items: Sequence[str]
    test_items: Sequence[str]

    def characters_per_token(self, side: Corpus) -> float:
        """How many characters a predicted token stands for, where a closing boundary counts as one of both."""
        if self.vocabulary.kind == "characters" or not side.n_predicted:
            return 1.0
        n_characters = len(self.vocabulary.decode(side.tokens.tolist()))
        n_items = int((side.tokens == 0).sum()) - 1 if side.has_boundary else 0
        return (n_characters + n_items) / side.n_predicted


def split_sequences(
    data: ListData | TextData, tokens: str = "characters", boundary: str = "one", vocabulary: Vocabulary | None = None
) -> SequenceSides:
    """Lists by the hash of the item; running text in its own order, the first 80 % for train.

    Where the data say that they are divided into train and test alone, dev is taken from train. boundary: "one" or
    "two", of a list. vocabulary: one that was learned before, in place of these data's own.
    """
    if isinstance(data, TextData):
        vocabulary = vocabulary or _vocabulary(data, tokens)
        whole = encode_text(data, vocabulary).tokens
        first, second = (int(len(whole) * part) for part in text_cuts(data))
        train, dev, test = (Corpus(part, False) for part in (whole[:first], whole[first:second], whole[second:]))
        return SequenceSides(vocabulary, train, dev, test, [], [], [])
    split = split_list(data.items, divided=training_sides(data.items, data.divided_by, data.sides))
    if not split.train:
        raise PellucidError(
            f"none of the {len(data.items):,} items of {data.name} falls to the train side", fix="Give it more items"
        )
    vocabulary = vocabulary or _vocabulary(data, tokens, split.train, has_end=boundary == "two")
    train, dev, test = (encode_list(items, vocabulary) for items in (split.train, split.dev, split.test))
    return SequenceSides(vocabulary, train, dev, test, split.train, split.dev, split.test)


def text_cuts(data: TextData) -> tuple[float, float]:
    """Where train and dev end, as parts of the text."""
    return training_cuts(data.divided_by.fractions if data.divided_by else FRACTIONS)


def _vocabulary(
    data: ListData | TextData, tokens: str, train: Sequence[str] = (), *, has_end: bool = False
) -> Vocabulary:
    """train: of a list, the items that pieces of words are learned from."""
    has_boundary = isinstance(data, ListData)
    if tokens == "bytes":
        return Bytes(has_boundary, has_end)
    if tokens != "bpe":
        return (Words if tokens == "words" else Characters).of(data, has_boundary, has_end)
    if isinstance(data, TextData):
        text = data.read()
        train = [text[: int(len(text) * text_cuts(data)[0])]]
    return BPE.train(train, BPE_SIZE, has_boundary, has_end)


@dataclass(frozen=True)
class PairSides:
    """Every pair as tokens. The alphabet is everyone's; token 0 is the boundary."""

    vocabulary: PairVocabulary
    train: TokenPairs = field(repr=False)
    dev: TokenPairs = field(repr=False)
    test: TokenPairs = field(repr=False)
    longest_source: int  # of all three sides, in tokens
    longest_target: int
    texts: Mapping[str, list[tuple[str, str]]] = field(repr=False)  # of each side


def pair_sides(data: PairsData, targets: str = "") -> PairSides:
    """Pairs on three sides by the hash of the source, so that no source is asked for in dev that train gave away.

    targets: how they are written, in "letters", "words" or "changes"; "": as the data say, or as suits them.

    >>> from pellucid.data import open_data
    >>> sides = pair_sides(open_data("dedupe-sort"))
    >>> sides.texts["train"][0], sides.train[0], sides.vocabulary.tokens
    (('DBBC', 'BCD'), ([4, 2, 2, 3], [2, 3, 4]), ['·', 'A', 'B', 'C', 'D'])
    """
    hashes = item_hashes(source for source, _ in data.pairs)
    if data.sides is None:
        places = places_by_hash(hashes, np.zeros(len(hashes), dtype=np.int64), data.divided_by)
        if not len(places["dev"]):
            raise PellucidError(
                f"the dev side of {len(hashes):,} examples came out empty, and train can spare none",
                where=f"in {data.name}",
                fix="Give it more examples",
            )
    else:
        sides = training_sides([source for source, _ in data.pairs], None, data.sides)
        places = {side: np.flatnonzero(sides == number) for number, side in enumerate(SIDES)}
    texts = {side: [data.pairs[row] for row in rows] for side, rows in places.items()}
    vocabulary = _pair_vocabulary(data.pairs, texts["train"], targets or data.targets)
    encode = {side: vocabulary.encode_known if side == "train" else _encode_new(vocabulary) for side in SIDES}
    tokens = {
        side: [(encode[side](*pair), vocabulary.encode_target(*pair)) for pair in pairs]
        for side, pairs in texts.items()
    }
    return PairSides(
        vocabulary=vocabulary,
        train=tokens["train"],
        dev=tokens["dev"],
        test=tokens["test"],
        longest_source=max(len(source) for source, _ in data.pairs) + vocabulary.n_beside,
        longest_target=max(len(target) for pairs in tokens.values() for _, target in pairs),
        texts=texts,
    )


def _encode_new(vocabulary: PairVocabulary) -> Callable[[str, str], list[int]]:
    return lambda source, _: vocabulary.encode(source)


def _pair_vocabulary(pairs: Texts, train: Texts, targets: str) -> PairVocabulary:
    """The vocabulary in which the targets are written as asked, or as suits them."""
    if targets:
        require_one_of("way to write targets", targets, TARGETS)
    words: list[str] = []
    if targets in ("", "words"):
        words = words_of_targets([target for _, target in pairs], is_asked=bool(targets))
    letters = Characters.of(text for pair in pairs for text in (pair[:1] if words else pair)).tokens[1:]
    if words:
        return LettersToWords(letters, words)
    if targets == "changes" or (not targets and are_changes_better(train)):
        return LettersToChanges(letters, max(0, *(change_of(*pair).cut for pair in pairs)), train)
    return LettersToLetters(letters)
