"""Vocabularies: what the tokens of a model are. Characters, words, bytes and byte pairs.

For lists one boundary token opens and closes every item. It has index 0 and is shown as "·". By choice there are two:
<S>, index 0, opens an item, and <E>, the last index, closes it. Running text has none.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from pellucid.data.kinds import TOKENS, ListData, TextData
from pellucid.errors import PellucidError, TooLarge, nearest, quoted, require_one_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BOUNDARY, START, END = "·", "<S>", "<E>"
MOST_SYMBOLS = 100_000  # more than any script has; beyond that the file is not text
LONGEST_WORD = 1 << 20
ITEMS_AT_ONCE = 1 << 16  # of a list
SMALLEST_BPE = 257  # every byte, and the boundary
LARGEST_BPE = 200_000
UNKNOWN_WAYS = ("error", "skip")
_LETTERS = r"\w+(?:['’]\w+)*"
WORD_PATTERN = rf" ?{_LETTERS}| ?[^\w\s]|\s"
_WORD = re.compile(WORD_PATTERN, re.UNICODE)

# What a vocabulary can be learned from.
Texts: TypeAlias = ListData | TextData | str | Iterable[str]


class Vocabulary(ABC):
    """Text to numbers and back. The boundary, where there is one, is token 0, and the others stand behind it.

    has_end: the boundary only opens an item, and another, the last token, closes it.
    """

    kind: str

    def __init__(self, shown: Sequence[str], has_boundary: bool, has_end: bool = False) -> None:
        assert has_boundary or not has_end, "only what has a beginning has an end"
        self.has_boundary, self.has_end = has_boundary, has_end
        self.shift = int(has_boundary)
        opening = [START if has_end else BOUNDARY] * has_boundary
        self.tokens = [*opening, *shown, *[END] * has_end]  # how each token is shown

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def closing(self) -> int:
        """The token that closes an item."""
        return len(self.tokens) - 1 if self.has_end else 0

    @property
    def symbols(self) -> list[str]:
        """The tokens without boundaries."""
        return self.tokens[self.shift : len(self.tokens) - int(self.has_end)]

    def is_boundary(self, token: int) -> bool:
        return self.has_boundary and token in (0, self.closing)

    @abstractmethod
    def encode(self, text: str, unknown: str = "error") -> list[int]:
        """The tokens of a text, without boundaries. What was never seen is an error that names it, or is skipped."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens; boundaries are left out."""

    def to_json(self) -> dict[str, Any]:
        """What `vocabulary_from_json` takes."""
        return {"kind": self.kind, "has_boundary": self.has_boundary, **({"has_end": True} if self.has_end else {})}


def texts_of(given: Texts) -> Iterator[str]:
    """The pieces of text in anything that a vocabulary can be learned from."""
    if isinstance(given, TextData):
        return given.characters()
    if isinstance(given, ListData):
        return iter(given.items)
    return iter([given] if isinstance(given, str) else given)


def distinct(text: str) -> set[str]:
    """The different characters of a text.

    >>> sorted(distinct("banana"))
    ['a', 'b', 'n']
    """
    if len(text) < 1 << 16:
        return set(text)
    import numpy

    # A hundred times faster than a set, which matters once there are millions.
    codes = numpy.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=numpy.uint32)
    return {chr(code) for code in numpy.flatnonzero(numpy.bincount(codes))}


class _Symbols(Vocabulary):
    """What characters and words share: every symbol that was seen is a token."""

    noun: str

    def __init__(self, symbols: Sequence[str], has_boundary: bool = True, has_end: bool = False) -> None:
        super().__init__(symbols, has_boundary, has_end)
        self.index = {symbol: i for i, symbol in enumerate(symbols, start=self.shift)}

    def cut(self, text: str) -> Iterable[str]:
        """The symbols that a text is made of."""
        return text

    def encode(self, text: str, unknown: str = "error") -> list[int]:
        require_one_of("way to treat the unknown", unknown, UNKNOWN_WAYS)
        if unknown == "skip":
            return [self.index[symbol] for symbol in self.cut(text) if symbol in self.index]
        try:
            return [self.index[symbol] for symbol in self.cut(text)]
        except KeyError as error:
            raise unknown_symbol(error.args[0], self.index, self.noun) from None

    def decode(self, ids: Sequence[int]) -> str:
        require_ids(ids, len(self.tokens))
        if self.has_end:
            ids = [i for i in ids if i != self.closing]
        return "".join(self.tokens[i] for i in ids if i or not self.has_boundary)

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "tokens": self.symbols}


class Characters(_Symbols):
    """Each character is a token.

    >>> vocabulary = Characters.of(["bad", "dab"])
    >>> vocabulary.tokens, vocabulary.encode("abba"), vocabulary.decode([3, 1, 2])
    (['·', 'a', 'b', 'd'], [1, 2, 2, 1], 'dab')
    >>> Characters.of(["bad", "dab"], has_end=True).tokens
    ['<S>', 'a', 'b', 'd', '<E>']
    """

    kind = "characters"
    noun = "character"

    @classmethod
    def of(cls, texts: Texts, has_boundary: bool = True, has_end: bool = False) -> "Characters":
        """Every character that occurs, in the order of their code points."""
        if isinstance(texts, TextData) and texts.first_nul >= 0:
            raise PellucidError(
                f"there is a NUL in {texts.name}",
                where=f"at character {texts.first_nul + 1:,}",
                fix="Try {tokens}, or remove it",
                options={"tokens": "bytes"},
            )
        symbols: set[str] = set()
        rest, at_once = texts_of(texts), ITEMS_AT_ONCE if isinstance(texts, ListData) else 1
        while piece := list(islice(rest, at_once)):
            symbols |= distinct("".join(piece))
        _require_size(len(symbols), "symbols", has_boundary)
        return cls(sorted(symbols), has_boundary, has_end)


class Words(_Symbols):
    """Each word and each mark is a token, and takes one space before it along, so that decoding gives back the text.

    >>> vocabulary = Words.of("the cat saw the dog.", has_boundary=False)
    >>> vocabulary.tokens
    [' cat', ' dog', ' saw', ' the', '.', 'the']
    >>> vocabulary.decode(vocabulary.encode("the dog saw."))
    'the dog saw.'
    """

    kind = "words"
    noun = "word"

    @classmethod
    def of(cls, texts: Texts, has_boundary: bool = True, has_end: bool = False) -> "Words":
        """Every word that occurs, sorted."""
        words: set[str] = set()
        for text in whole_words(texts_of(texts), joined=isinstance(texts, TextData)):
            words.update(words_in(text))
        _require_size(len(words), "words", has_boundary, most=10 * MOST_SYMBOLS)
        return cls(sorted(words), has_boundary, has_end)

    def cut(self, text: str) -> Iterable[str]:
        return words_in(text)


class Bytes(Vocabulary):
    """Each byte of the text in UTF-8 is a token: nothing is ever unknown.

    >>> Bytes().encode("é"), Bytes(has_boundary=False).encode("é")
    ([196, 170], [195, 169])
    """

    kind = "bytes"

    def __init__(self, has_boundary: bool = True, has_end: bool = False) -> None:
        super().__init__([chr(i) if 32 <= i < 127 else f"<{i:02X}>" for i in range(256)], has_boundary, has_end)

    def encode(self, text: str, unknown: str = "error") -> list[int]:
        require_one_of("way to treat the unknown", unknown, UNKNOWN_WAYS)
        return [byte + self.shift for byte in text.encode("utf-8", "surrogatepass")]

    def decode(self, ids: Sequence[int]) -> str:
        require_ids(ids, len(self))
        # A model may stop in the middle of a character; what is no UTF-8 is shown as its code.
        return bytes(i - self.shift for i in ids if not self.is_boundary(i)).decode("utf-8", "backslashreplace")


class BPE(Vocabulary):
    """Tokens are pieces of words, learned from the training text by the `tokenizers` package.

    It starts from the 256 bytes, so nothing is ever unknown, and joins the most frequent neighbours until there are
    `size`. Train it on the training split alone: a vocabulary that has read the test text has seen the test.

    >>> vocabulary = BPE.train(["low lower lowest"] * 9, size=262, has_boundary=False)
    >>> vocabulary.decode(vocabulary.encode("lowest"))
    'lowest'
    >>> len(vocabulary.encode("lowest")) < len("lowest")
    True
    """

    kind = "bpe"

    def __init__(self, tokenizer: "Tokenizer", has_boundary: bool = True, has_end: bool = False) -> None:
        self._tokenizer = tokenizer
        size = tokenizer.get_vocab_size(with_added_tokens=False)
        shown = [tokenizer.decode([i]) for i in range(size)]
        # A piece of a character decodes to U+FFFD; the stored form tells such pieces apart.
        named = [
            tokenizer.id_to_token(i) or "" if "\ufffd" in text or not text else text for i, text in enumerate(shown)
        ]
        super().__init__(named, has_boundary, has_end)

    @classmethod
    def train(cls, texts: Texts, size: int, has_boundary: bool = True, has_end: bool = False) -> "BPE":
        """Learn at most `size` tokens, the boundaries among them."""
        if not SMALLEST_BPE <= size <= LARGEST_BPE:
            raise PellucidError(
                f"a vocabulary of {size:,} is outside {SMALLEST_BPE} to {LARGEST_BPE:,}",
                fix="Every byte needs a token; 512 to 4,096 suit small texts",
            )
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size - int(has_boundary) - int(has_end),
            show_progress=False,
            special_tokens=[],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        )
        pieces = whole_words(texts_of(texts), joined=isinstance(texts, TextData))
        tokenizer.train_from_iterator((require_utf8(piece) for piece in pieces), trainer)
        return cls(tokenizer, has_boundary, has_end)

    def encode(self, text: str, unknown: str = "error") -> list[int]:
        ids: list[int] = self._tokenizer.encode(require_utf8(text)).ids
        return [i + self.shift for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        require_ids(ids, len(self))
        found: str = self._tokenizer.decode([i - self.shift for i in ids if not self.is_boundary(i)])
        return found

    def stored_form(self, token: int) -> str:
        """A token as the tokenizer keeps it: one letter for each of its bytes."""
        return self._tokenizer.id_to_token(token - self.shift) or ""

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "tokenizer": json.loads(self._tokenizer.to_str())}


def vocabulary_from_json(stored: Any) -> Vocabulary:
    """The vocabulary that `to_json` described.

    >>> vocabulary_from_json(Characters.of(["ab"]).to_json()).encode("ba")
    [2, 1]
    """
    if isinstance(stored, dict) and stored.get("kind") == "hugging-face":
        from pellucid.data.hf_vocabulary import hf_vocabulary_from_json

        return hf_vocabulary_from_json(stored)
    if not isinstance(stored, dict) or stored.get("kind") not in TOKENS:
        found = quoted(str(stored.get("kind"))) if isinstance(stored, dict) else type(stored).__name__
        raise damaged_vocabulary(f"its kind is {found}")
    has_boundary = stored.get("has_boundary")
    if not isinstance(has_boundary, bool):
        raise damaged_vocabulary("has_boundary is no yes or no")
    has_end = stored.get("has_end", False)
    if not isinstance(has_end, bool) or has_end > has_boundary:
        raise damaged_vocabulary("has_end is no yes or no, or nothing has begun")
    if stored["kind"] == "bytes":
        return Bytes(has_boundary, has_end)
    if stored["kind"] == "bpe":
        if not isinstance(stored.get("tokenizer"), dict):
            raise damaged_vocabulary("it has no tokenizer")
        from tokenizers import Tokenizer

        try:
            return BPE(Tokenizer.from_str(json.dumps(stored["tokenizer"])), has_boundary, has_end)
        except Exception as error:  # the package raises plain Exception
            raise damaged_vocabulary("its tokenizer cannot be read") from error
    if stored["kind"] == "words":
        return Words(stored_tokens(stored, "tokens"), has_boundary, has_end)
    return Characters(stored_letters(stored, "tokens"), has_boundary, has_end)


def stored_tokens(stored: dict[str, Any], name: str) -> list[str]:
    """The list of that name. It may come from someone else, so it is checked before it is believed."""
    tokens = stored.get(name)
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) and token for token in tokens):
        raise damaged_vocabulary(f"its {name} are no list of texts")
    if len(set(tokens)) != len(tokens):
        raise damaged_vocabulary(f"its {name} hold one of them twice")
    return tokens


def stored_letters(stored: dict[str, Any], name: str) -> list[str]:
    """The same, each a single character."""
    tokens = stored_tokens(stored, name)
    if any(len(token) != 1 for token in tokens):
        raise damaged_vocabulary(f"its {name} hold more than one character in a place")
    return tokens


def damaged_vocabulary(why: str) -> PellucidError:
    """The error that says what is wrong with a vocabulary of a run."""
    return PellucidError(f"the stored vocabulary is damaged: {why}", fix="Make it again from the training data")


def whole_words(pieces: Iterable[str], joined: bool) -> Iterator[str]:
    """The pieces, cut again at white space where they continue each other, so that no word is torn."""
    if not joined:
        yield from pieces
        return
    held = ""
    for piece in pieces:
        text = held + piece
        # Before the white space: a word takes the space in front of it along.
        cut = max(text.rfind(" "), text.rfind("\n"))
        cut = len(text) if cut <= 0 and len(text) > LONGEST_WORD else cut
        held = text[max(cut, 0) :]
        if cut > 0:
            yield text[:cut]
    if held:
        yield held


def require_ids(ids: Sequence[int], size: int) -> None:
    """Refuse numbers that are no tokens; a negative one would count from the end in silence."""
    for i in ids:
        if not 0 <= i < size:
            raise PellucidError(f"there is no token {i}", fix=f"Tokens go from 0 to {size - 1}")


def words_in(text: str) -> list[str]:
    """A text cut as `Words` cuts it.

    >>> words_in("To be, or not.")
    ['To', ' be', ',', ' or', ' not', '.']
    """
    return _WORD.findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where each word begins and ends, without marks and white space.

    >>> word_spans("To be, or")
    [(0, 2), (3, 5), (7, 9)]
    """
    return [found.span() for found in re.finditer(_LETTERS, text)]


def unknown_symbol(symbol: str, index: Iterable[str], noun: str = "character") -> PellucidError:
    """The error that names what was never seen."""
    known = set(index)
    twin = next((one for one in (symbol.lower(), symbol.upper()) if one in known), "") or nearest(symbol, known)
    named = quoted(symbol) if len(symbol) > 1 else f"{quoted(symbol)} (U+{ord(symbol):04X})"
    fix = f"Write {quoted(twin)}, or use {{unknown}}" if twin else "Use {unknown} to leave it out"
    return PellucidError(f"the {noun} {named} was never seen in the data", fix=fix, options={"unknown": "skip"})


def _require_size(n: int, noun: str, has_boundary: bool, most: int = MOST_SYMBOLS) -> None:
    if n > most:
        raise TooLarge(
            f"there are {n:,} distinct {noun}, and at most {most:,} are sensible",
            fix="Try {tokens}",
            options={"tokens": "bytes"},
        )
    if n == 0:
        raise PellucidError(f"there are no {noun} to make a vocabulary of", fix="Give it a text")
    if n == 1 and not has_boundary:
        raise PellucidError("there is only one distinct symbol", fix="There is nothing to learn from it")


def require_utf8(text: str) -> str:
    """The text, refused where it has no UTF-8 form: half of a surrogate pair has none."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PellucidError(
            f"half a surrogate pair, U+{ord(text[error.start]):04X}, cannot be encoded",
            where=f"at character {error.start + 1}",
            fix="Remove it",
        ) from error
    return text
