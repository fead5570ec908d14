"""How the symbols of a vocabulary are written, so that each can be seen and no two look alike."""

import unicodedata
from collections.abc import Iterable, Sequence

from pellucid.errors import printable

BOUNDARY = "·"
SIGNS = {" ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥"}
LONGEST_LABEL = 10  # letters beside an axis
WORDS = {"␣": "space", "↵": "newline", "␍": "carriage return", "⇥": "tab"}


def symbol_labels(symbols: Sequence[str], has_boundary: bool) -> list[str]:
    """A label for each symbol. The boundary stands first; a character that looks like another shows its code.

    >>> symbol_labels(["·", " ", "a", "·", "\\x00"], has_boundary=True)
    ['·', '␣', 'a', 'U+00B7', 'U+0000']
    """
    given: dict[str, None] = {}
    for i, symbol in enumerate(symbols):
        label = BOUNDARY if has_boundary and i == 0 else _sign(symbol)
        if label in given:
            label = _codes(symbol)
        while label in given:
            label += "'"
        given[label] = None
    return list(given)


def _sign(symbol: str) -> str:
    if symbol in SIGNS:
        return SIGNS[symbol]
    # A mark that leans on the character before it, and one that is not seen at all, are told by their codes.
    is_seen = symbol.isprintable() and symbol.strip() and not unicodedata.combining(symbol[:1])
    return symbol if is_seen else _codes(symbol)


def _codes(symbol: str) -> str:
    return "+".join([f"U+{ord(character):04X}" for character in symbol]) or "nothing"


def spoken_label(label: str) -> str:
    """The label as it stands in a sentence: with a word where the sign would need a font of its own."""
    return WORDS.get(label, label)


def most_frequent(sums: Sequence[int], most: int) -> list[int]:
    """The places of the largest sums, at most that many, in the order of the vocabulary.

    >>> most_frequent([5, 0, 9, 7], most=2)
    [2, 3]
    """
    ranked = sorted(range(len(sums)), key=lambda place: -sums[place])
    return sorted(ranked[:most])


def join_words(words: Iterable[str]) -> str:
    """
    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def token_label(token: str) -> str:
    """The token with signs for what cannot be seen, its end left out where it is too long.

    >>> token_label(" "), token_label(" the"), token_label("a"), token_label("\\n"), token_label("representation")
    ('␣', '_the', 'a', '↵', 'represent…')
    """
    # The sign of a space needs a font of its own, and a whole word would be set in it.
    token = token.replace(" ", "_") if token.strip() else token
    shown = "".join([symbol_labels([character], has_boundary=False)[0] for character in token])
    return shown if len(shown) <= LONGEST_LABEL else shown[: LONGEST_LABEL - 1] + "…"


def cut_middle(text: str, longest: int) -> str:
    """The text with its middle left out where it is longer than that.

    >>> cut_middle("learning_rate_of_the_first_layer", 13)
    'learni…_layer'
    """
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}…{text[len(text) - tail :]}"


def cut_end(text: str, longest: int) -> str:
    """The text in printable form, its end left out where it is too long.

    >>> cut_end("emma\\n", 9), cut_end("x" * 20, 5)
    ('emma\\\\n', 'xxxx…')
    """
    shown = printable(text)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def end_sentence(sentence: str) -> str:
    """The sentence with its full stop.

    >>> end_sentence("it fits"), end_sentence("it fits.")
    ('it fits.', 'it fits.')
    """
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def wrap_text(sentence: str, width: int) -> list[str]:
    """The sentence in lines of at most that many characters, where its words allow it.

    >>> wrap_text("one two three", 8)
    ['one two', 'three']
    """
    lines = [""]
    for word in sentence.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
