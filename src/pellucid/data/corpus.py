"""A corpus: all tokens of the data in one flat array of the smallest integer type that holds them."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pellucid.data.kinds import ListData, TextData
from pellucid.data.vocabularies import Bytes, Characters, Vocabulary, unknown_symbol, whole_words
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    import numpy

    Array: TypeAlias = "numpy.ndarray[Any, numpy.dtype[Any]]"

# Above this many bytes of tokens they go to a file without a name, mapped into memory, and not into memory itself.
MOST_IN_MEMORY = 64 << 20


@dataclass(frozen=True)
class Corpus:
    """Tokens, one after another.

    For a list the stream is `0 a… 0 b… 0`: one boundary between items, so that each closes one and opens the next.
    `starts` has the place of each item's opening boundary. Running text has no boundary and no starts.
    """

    tokens: "Array" = field(repr=False)
    vocabulary: Vocabulary = field(repr=False)
    has_boundary: bool
    starts: "Array" = field(repr=False)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def n_predicted(self) -> int:
        """How many tokens are predicted: all but the first, the closing boundary of each item among them."""
        return max(0, len(self.tokens) - 1)

    @property
    def n_items(self) -> int:
        return len(self.starts)

    def item(self, i: int) -> "Array":
        """The tokens of one item, without its boundaries."""
        start = int(self.starts[i])
        end = int(self.starts[i + 1]) if i + 1 < len(self.starts) else len(self.tokens) - 1
        return self.tokens[start + 1 : end]


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
    import numpy

    if not vocabulary.has_boundary:
        raise PellucidError("a list needs a vocabulary with a boundary", fix="Make it with has_boundary=True")
    items = items.items if isinstance(items, ListData) else items
    if isinstance(vocabulary, Characters) and unknown == "error":
        lengths = numpy.fromiter((len(item) for item in items), dtype=numpy.int64, count=len(items))
        letters = _encoded("".join(items), vocabulary, unknown)
    else:
        each = [vocabulary.encode(item, unknown) for item in items]
        lengths = numpy.fromiter((len(ids) for ids in each), dtype=numpy.int64, count=len(items))
        letters = numpy.fromiter((i for ids in each for i in ids), dtype=token_type(len(vocabulary)))
    ends = numpy.cumsum(lengths + 1)
    tokens = numpy.zeros(len(letters) + len(items) + 1, dtype=token_type(len(vocabulary)))
    is_letter = numpy.ones(len(tokens), dtype=bool)
    is_letter[0] = False
    is_letter[ends] = False
    tokens[is_letter] = letters
    return Corpus(tokens, vocabulary, has_boundary=True, starts=ends - lengths - 1)


def encode_text(text: TextData | str, vocabulary: Vocabulary, unknown: str = "error") -> Corpus:
    """Running text as tokens, piece by piece, so that memory stays flat however long it is."""
    import numpy

    dtype = token_type(len(vocabulary))
    nothing = numpy.zeros(0, dtype=numpy.int64)
    pieces = iter([text]) if isinstance(text, str) else text.characters()
    is_by_letter = isinstance(vocabulary, Characters | Bytes)
    arrays = (
        _encoded(piece, vocabulary, unknown) for piece in (pieces if is_by_letter else whole_words(pieces, joined=True))
    )
    tokens = _collected(arrays, dtype)
    return Corpus(tokens, vocabulary, has_boundary=False, starts=nothing)


def fitting_context(corpus: Corpus, context: int) -> tuple[int, str]:
    """The context to use, and a note where the text is too short for the one that was wanted.

    >>> from pellucid.data.vocabularies import Characters
    >>> corpus = encode_text("abcab", Characters.of("abc", has_boundary=False))
    >>> fitting_context(corpus, context=8)
    (4, 'context 8 needs 9 tokens and there are 5: 4 is used')
    """
    if context < 1:
        raise PellucidError(f"a context of {context} sees nothing", fix="Try --context 8")
    if len(corpus) < 2:
        raise PellucidError(f"at least 2 tokens are needed, and there is {len(corpus)}", fix="Give it more text")
    if len(corpus) > context:
        return context, ""
    fits = len(corpus) - 1
    return fits, f"context {context} needs {context + 1} tokens and there are {len(corpus)}: {fits} is used"


def _encoded(text: str, vocabulary: Vocabulary, unknown: str) -> "Array":
    """One piece of text as an array of the smallest type."""
    import numpy

    dtype = token_type(len(vocabulary))
    if isinstance(vocabulary, Bytes):
        content = numpy.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=numpy.uint8)
        wide: Array = content.astype(dtype)
        return wide + 1 if vocabulary.has_boundary else wide
    if not isinstance(vocabulary, Characters):
        return numpy.array(vocabulary.encode(text, unknown), dtype=dtype)
    if text.isascii():
        codes: Array = numpy.frombuffer(text.encode("ascii"), dtype=numpy.uint8)
        size = 128
    else:
        codes = numpy.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=numpy.uint32)
        size = 0x110000
    # One place more than there are tokens stands for "never seen".
    never = len(vocabulary)
    table = numpy.full(size, never, dtype=token_type(never + 1))
    for symbol, i in vocabulary.index.items():
        if ord(symbol) < size:
            table[ord(symbol)] = i
    tokens: Array = table[codes]
    strange = tokens == never
    if strange.any():
        if unknown == "error":
            raise unknown_symbol(text[int(numpy.argmax(strange))], vocabulary.index)
        tokens = tokens[~strange]
    return tokens.astype(dtype, copy=False)


def _collected(arrays: Iterator["Array"], dtype: str) -> "Array":
    """The arrays end to end: in memory while they are small, else in a nameless file that is mapped."""
    import numpy

    held: list[Array] = []
    n_bytes = 0
    for array in arrays:
        held.append(array)
        n_bytes += array.nbytes
        if n_bytes > MOST_IN_MEMORY:
            break
    else:
        return numpy.concatenate(held) if held else numpy.zeros(0, dtype=dtype)
    try:
        with tempfile.TemporaryFile() as file:
            for array in held:
                file.write(array.tobytes())
            held.clear()
            for array in arrays:
                file.write(array.tobytes())
            file.flush()
            mapped: Array = numpy.memmap(file, dtype=dtype, mode="r")
            return mapped
    except OSError as error:
        raise PellucidError(
            f"the tokens could not be kept in {tempfile.gettempdir()}: {error.strerror}",
            fix="Make room there, or set TMPDIR to a folder with room",
        ) from error
