"""How the symbols of a vocabulary are written, so that each can be seen and no two look alike."""

import unicodedata
from collections.abc import Iterable, Sequence

BOUNDARY = "·"
SIGNS = {" ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥"}
LONGEST_LABEL = 10  # letters beside an axis
WORDS = {"␣": "space", "↵": "newline", "␍": "carriage return", "⇥": "tab"}


def labels(symbols: Sequence[str], has_boundary: bool) -> list[str]:
    """A label for each symbol. The boundary stands first; a character that looks like another shows its code.

    >>> labels(["·", " ", "a", "·", "\\x00"], has_boundary=True)
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


def spoken(label: str) -> str:
    """The label as it stands in a sentence: with a word where the sign would need a font of its own."""
    return WORDS.get(label, label)


def most_frequent(sums: Sequence[int], most: int) -> list[int]:
    """The places of the largest sums, at most that many, in the order of the vocabulary.

    >>> most_frequent([5, 0, 9, 7], most=2)
    [2, 3]
    """
    ranked = sorted(range(len(sums)), key=lambda place: -sums[place])
    return sorted(ranked[:most])


def share(part: float, whole: float) -> str:
    """A part as a percentage that never rounds up to all or down to nothing.

    >>> share(1, 3), share(99999, 100000), share(5, 5), share(1, 10**6)
    ('33.3 %', '99.9 %', '100 %', 'less than 0.1 %')
    """
    if not part or part == whole:
        return "100 %" if part else "0 %"
    percent = int(1000 * part / whole) / 10 if part > 0.99 * whole else round(100 * part / whole, 1)
    return f"{percent} %" if percent else "less than 0.1 %"


def compact(n: int) -> str:
    """A count that fits a small place: exact up to six digits.

    >>> compact(6763), compact(228146), compact(1234567)
    ('6763', '228146', '1.23M')
    """
    if n < 10**6:
        return str(n)
    return f"{n / 10**6:.3g}M" if n < 10**9 else f"{n / 10**9:.3g}G"


def listed(words: Iterable[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
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
    shown = "".join([labels([character], has_boundary=False)[0] for character in token])
    return shown if len(shown) <= LONGEST_LABEL else shown[: LONGEST_LABEL - 1] + "…"
