"""A text of one's own as tokens, without a model: symbols and indices, what is predicted from what, and its costs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pellucid.data.kinds import ListData, TextData, require_kind
from pellucid.data.options import DataOptions, open_with, require_used
from pellucid.data.readers import TABLE_ENDINGS
from pellucid.data.readers.memory import is_place, read_memory
from pellucid.data.readers.sources import STDIN
from pellucid.data.sets import is_dataset
from pellucid.decoding.options import UNKNOWN
from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.figures import Shown
from pellucid.models.settings import setting
from pellucid.options import check_options, option, options_of
from pellucid.records import AxisSizes, TokenCost, TokenExample, TokenListing

if TYPE_CHECKING:
    from pellucid.data.prepare.tokens import Corpus
    from pellucid.data.vocabularies import Characters, Vocabulary, Words

FILE_ENDINGS = (*TABLE_ENDINGS, ".txt", ".text", ".md", ".log", ".py", ".html", ".xml")  # that no word of a text has
READING = ("kind", "encoding", "newlines", "tokens", "boundary")  # of DataOptions
LONGEST_PATH = 4096  # bytes
MOST_SYMBOLS = 256  # of a vocabulary that are listed
MOST_COSTED = 20_000  # characters; more would only take longer to say the same ratios


@dataclass(frozen=True)
class TokenOptions:
    """What is shown of a text as tokens."""

    context: int = option(
        0, "Tokens that a prediction looks back on; by default all of an item, or 64 of a text.", minimum=1
    )
    vocabulary: str = option(
        "",
        'Symbols in the order of their indices, such as "abd "; by default those of the text, sorted.',
        value_name="SYMBOLS",
    )
    count: int = option(
        20, "Number of tokens, and of examples, that are shown.", minimum=1, maximum=100_000, aliases=("-n",)
    )
    unknown: str = option("error", "What is not in the vocabulary", noun="way to treat the unknown", choices=UNKNOWN)
    bpe: int = option(512, "Size of the vocabulary of byte pairs.", minimum=257, maximum=100_000)
    width: int = setting("width", 64, help="Embedding (model) dimension of the transformer whose costs are counted.")
    layers: int = option(4, "Layers of that transformer.", minimum=1, maximum=1000)

    def __post_init__(self) -> None:
        check_options(self)


def tokens(
    text: object,
    *,
    kind: str = "",
    encoding: str = "utf-8",
    newlines: str = "keep",
    tokens: str = "characters",
    boundary: str = "one",
    **options: Any,
) -> Shown[TokenListing]:
    """The symbols and indices of a text or a list, its contexts with their targets, and what each way to cut it costs.

    text: a text itself, a file, a set that comes with pellucid, or a list that Python holds. What is no file and no set
    is taken as the text itself, or with kind="list" as one item of a list. Every option of the command is a parameter:
    context=3, vocabulary="abd ", count=50.

    >>> tokens("bca").indices
    (1, 2, 0)
    >>> listing = tokens("bad dab", vocabulary="abd ")
    >>> listing.indices
    (1, 0, 2, 3, 2, 0, 1)
    >>> [(one.context_indices, one.target_index) for one in listing.examples][:3]
    [((1,), 0), ((1, 0), 2), ((1, 0, 2), 3)]
    """
    asked = TokenOptions(**_require_known(options))
    reading = DataOptions("", kind, encoding, newlines, tokens, boundary)
    given = text if isinstance(text, str) and not _names_data(text) else None
    if given == "":
        raise PellucidError("TEXT is empty", fix='Give a text, such as "bad dab"')
    if given is not None and kind not in ("", "list", "text"):
        raise PellucidError(f"a text that is given itself is no {kind}", fix="Try {kind}", options={"kind": "text"})
    if given is not None and kind != "text" and boundary == "two":
        kind = "list"  # only items have boundaries
    opened = _as_data(given, kind) if given is not None else _open(text, reading)
    require_used(reading, "list" if isinstance(opened, ListData) else "text")
    return Shown(_list_tokens(opened, reading, asked, given))


def _require_known(options: dict[str, Any]) -> dict[str, Any]:
    known = options_of(TokenOptions)
    for name in options:
        if name not in known:
            fix = did_you_mean(name, [*known, *READING])
            raise PellucidError(f"there is no option called {quoted(name)}", fix=fix)
    return options


def _names_data(text: str) -> bool:
    """Whether a word names a file or a set, one that is there or one that was meant to be."""
    if text == STDIN or is_dataset(text):
        return True
    if "\n" in text or "\0" in text or len(os.fsencode(text)) > LONGEST_PATH:
        return False
    if os.path.isdir(text):
        return os.path.isfile(os.path.join(text, "split.json"))
    is_like_file = not any(map(str.isspace, text)) and PurePath(text).suffix.lower() in FILE_ENDINGS
    return is_like_file or os.path.lexists(text)


def _open(text: object, reading: DataOptions) -> ListData | TextData:
    opened = open_with(replace(reading, source=str(text))) if is_place(text) else read_memory(text, kind=reading.kind)
    require_kind(opened, "text", "list")
    assert isinstance(opened, ListData | TextData)
    return opened


def _as_data(text: str, kind: str) -> str | ListData:
    """A text that is given itself; of a list, each line of it is an item."""
    if kind != "list":
        return text
    return ListData(quoted(text), [line for line in text.split("\n") if line.strip()], because="", fingerprint="")


def _list_tokens(
    data: str | ListData | TextData, reading: DataOptions, asked: TokenOptions, given: str | None
) -> TokenListing:
    from pellucid.data.prepare.tokens import DEFAULT_CONTEXT, encode_list, encode_text

    vocabulary = _make_vocabulary(data, reading, asked)
    if isinstance(data, ListData):
        corpus = encode_list(data, vocabulary, asked.unknown)
        context = asked.context or corpus.longest_item + 1
        is_window = bool(asked.context)
    else:
        corpus = encode_text(data, vocabulary, asked.unknown)
        context, is_window = min(asked.context or DEFAULT_CONTEXT, corpus.n_predicted), False
    names, first = vocabulary.tokens, list(islice(_written(corpus), asked.count))
    beginning, n_characters = _beginning(data)
    return TokenListing(
        source=data if isinstance(data, str) else given or data.description,
        is_given=given is not None,
        kind="list" if corpus.has_boundary else "text",
        tokens=reading.tokens,
        vocabulary=tuple(names[:MOST_SYMBOLS]),
        vocab_size=len(vocabulary),
        has_boundary=corpus.has_boundary,
        n_items=len(corpus.starts),
        n_tokens=len(corpus) + (len(corpus.starts) - 1) * vocabulary.has_end,
        symbols=tuple(names[index] for index in first),
        indices=tuple(first),
        n_examples=corpus.n_predicted,
        context=context,
        is_window=is_window,
        examples=tuple(
            TokenExample(tuple(names[index] for index in before), names[target], before, target)
            for before, target in islice(_contexts(corpus, context, is_window), asked.count)
        ),
        tensors=_tensors(corpus, context, is_window, len(vocabulary), asked.width),
        n_left=0 if corpus.has_boundary or not context else corpus.n_predicted % context,
        width=asked.width,
        n_layers=asked.layers,
        n_characters=n_characters,
        n_costed=len(beginning),
        costs=_costs(beginning, asked),
        notes=() if isinstance(data, str) else data.notes,
    )


def _make_vocabulary(data: str | ListData | TextData, reading: DataOptions, asked: TokenOptions) -> Vocabulary:
    from pellucid.data.vocabularies import BPE, Bytes, Characters, Words, distinct, words_in

    tokens, has_end = reading.tokens, reading.boundary == "two"
    has_boundary = isinstance(data, ListData)
    by_symbol = Words if tokens == "words" else Characters
    if asked.vocabulary:
        if tokens not in ("characters", "words"):
            raise PellucidError(
                f"{{vocabulary}} changes nothing for {tokens}, whose symbols are made otherwise",
                fix="Leave it out, or cut the text into characters or words",
                options={"vocabulary": None},
            )
        symbols = words_in(asked.vocabulary) if tokens == "words" else list(asked.vocabulary)
        twice = next((symbol for symbol in symbols if symbols.count(symbol) > 1), None)
        if twice is not None:
            raise PellucidError(
                f"{quoted(twice)} stands in {{vocabulary}} twice",
                fix="Write every symbol once",
                options={"vocabulary": None},
            )
        made = by_symbol(symbols, has_boundary, has_end)
        if asked.unknown == "error":
            _require_symbols(data, made)
        return made
    if tokens == "bytes":
        return Bytes(has_boundary, has_end)
    if tokens == "bpe":
        return BPE.train(data, asked.bpe, has_boundary, has_end)
    if isinstance(data, str):
        # A text to look at may well be one symbol over and over.
        return by_symbol(sorted(set(words_in(data)) if tokens == "words" else distinct(data)), has_boundary)
    return by_symbol.of(data, has_boundary, has_end)


def _require_symbols(data: str | ListData | TextData, vocabulary: Characters | Words) -> None:
    """Refuse a vocabulary without a symbol that the text has."""
    from pellucid.data.vocabularies import texts_of, whole_words

    for text in whole_words(texts_of(data), joined=isinstance(data, TextData)):
        strange = next((symbol for symbol in vocabulary.cut(text) if symbol not in vocabulary.index), None)
        if strange is not None:
            raise PellucidError(
                f"{quoted(strange)} is not in {{vocabulary}}",
                fix="Add it, or use {unknown} to leave it out",
                options={"vocabulary": None, "unknown": "skip"},
            )


def _written(corpus: Corpus) -> Iterator[int]:
    """The tokens as they are written: a token that closes an item stands before the one that opens the next."""
    for place, token in enumerate(corpus.tokens):
        if token or not corpus.closing:
            yield int(token)
            continue
        if place:
            yield corpus.closing
        if place < len(corpus) - 1:
            yield 0


def _contexts(corpus: Corpus, context: int, is_window: bool) -> Iterator[tuple[tuple[int, ...], int]]:
    """What each token is predicted from, and the token.

    Of a list: its item from the boundary on, the last `context` tokens of it, filled with boundaries where each has to
    have that many. Of a text: windows of `context` predictions follow one another, and each begins with one token.
    """
    began = 0
    for place in range(corpus.n_predicted):
        if corpus.tokens[place] == 0 if corpus.has_boundary else place - began == context:
            began = place
        first = max(began, place + 1 - context) if is_window else began
        before = tuple(corpus.tokens[first : place + 1].tolist())
        filled = (0,) * (context - len(before)) + before if is_window else before
        yield filled, int(corpus.tokens[place + 1]) or corpus.closing


def _tensors(corpus: Corpus, context: int, is_window: bool, vocab_size: int, width: int) -> tuple[AxisSizes, ...]:
    if not corpus.n_predicted:
        return ()
    if is_window:
        m = corpus.n_predicted
        return (
            AxisSizes("contexts", ("example", "context"), (m, context)),
            AxisSizes("targets", ("example",), (m,)),
            AxisSizes("one-hot", ("example", "context", "symbol"), (m, context, vocab_size)),
            AxisSizes("logits", ("example", "symbol"), (m, vocab_size)),
        )
    batch = len(corpus.starts) if corpus.has_boundary else corpus.n_predicted // context
    sizes = {"batch": batch, "time": context, "channel": width, "symbol": vocab_size}
    axes = {
        "tokens": ("batch", "time"),
        "targets": ("batch", "time"),
        "embeddings": ("batch", "time", "channel"),
        "logits": ("batch", "time", "symbol"),
    }
    return tuple(AxisSizes(name, of, tuple(sizes[axis] for axis in of)) for name, of in axes.items())


def _beginning(data: str | ListData | TextData) -> tuple[str, int]:
    """As much of the text as its costs are counted of, and how many characters there are."""
    if isinstance(data, ListData):
        text = "\n".join(data.items)
        return text[:MOST_COSTED], len(text)
    if isinstance(data, str):
        return data[:MOST_COSTED], len(data)
    return next(data.characters(), "")[:MOST_COSTED], len(data)


def _costs(text: str, asked: TokenOptions) -> tuple[TokenCost, ...]:
    from pellucid.lessons.token_costs import token_costs

    if not text.strip():
        return ()
    return token_costs(text, width=asked.width, n_layers=asked.layers, bpe_size=asked.bpe)
