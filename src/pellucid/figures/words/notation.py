"""How numbers, symbols and long texts are written, everywhere alike, so that each can be seen and no two look alike."""

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

from pellucid.errors import printable
from pellucid.records import MeanLoss, Measure

SHARES = (
    "accuracy",
    "balanced accuracy",
    "exact match",
    "tokens right",
    "letters right",
)  # every other metric is written as it is
SIGNS = {" ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥"}
LONGEST_LABEL = 10  # letters beside an axis
WORDS = {"␣": "space", "↵": "newline", "␍": "carriage return", "⇥": "tab"}


def short(x: float) -> str:
    """Six significant digits, without an idle minus before zero.

    >>> short(0.2689414213699951), short(-0.0), short(1e-12), short(float("-inf"))
    ('0.268941', '0', '1e-12', '-inf')
    """
    return f"{x:.6g}" if x else "0"


def with_article(name: str) -> str:
    """The name of a network behind its article, as it is spoken: "m", "r" and "l" of mlp, rnn and lstm are spelled.

    >>> with_article("encoder"), with_article("mlp"), with_article("transformer on counting"), with_article("logistic")
    ('an encoder', 'an mlp', 'a transformer on counting', 'a logistic')
    """
    is_an = name[:1] in "aei" or name.startswith(("mlp", "rnn", "lstm"))
    return f"{'an' if is_an else 'a'} {name}"


def in_brackets(x: float) -> str:
    """The number, in brackets where it is negative, so that it can stand behind a sign.

    >>> f"2 * {in_brackets(-1.0)}"
    '2 * (-1)'
    """
    return f"({short(x)})" if math.copysign(1.0, x) < 0 and x else short(x)


def rough(x: float) -> str:
    """Three significant digits, for a sentence."""
    return f"{x:.3g}" if x else "0"


def duration(seconds: float) -> str:
    """
    >>> duration(0.04), duration(43.4), duration(95), duration(7500)
    ('under 0.1 s', '43 s', '1 min 35 s', '2 h 5 min')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "under 0.1 s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")


def count_of(n: int, noun: str) -> str:
    """
    >>> count_of(1, "step"), count_of(12345, "step")
    ('1 step', '12,345 steps')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"


def when_words(step: int) -> str:
    """
    >>> when_words(0), when_words(1200)
    ('before the first step', 'at step 1,200')
    """
    return f"at step {step:,}" if step else "before the first step"


def nats_words(loss: MeanLoss) -> str:
    """
    >>> nats_words(MeanLoss(2.0, 100))
    '2.0000 nats (2.885 bits, perplexity 7.389)'
    """
    if loss.nats == math.inf:
        return "infinite nats"
    return f"{loss.nats:.4f} nats ({loss.bits:.3f} bits, perplexity {loss.perplexity:.4g})"


def large_count(n: int) -> str:
    """
    >>> large_count(14_348_907), large_count(27**20)
    ('14,348,907', '4.2e28')
    """
    return f"{n:,}" if n < 10**15 else f"{n:.1e}".replace("e+", "e")


def compact(n: int) -> str:
    """A count that fits a small place: exact up to six digits.

    >>> compact(6763), compact(228146), compact(1234567)
    ('6763', '228146', '1.23M')
    """
    if n < 10**6:
        return str(n)
    return f"{n / 10**6:.3g}M" if n < 10**9 else f"{n / 10**9:.3g}G"


def is_share(metric: str) -> bool:
    """Whether a metric is a part of all examples, and so written in percent."""
    return metric in SHARES


def percent(part: float, whole: float = 1.0) -> str:
    """A part with two decimals, everywhere; only all is 100 % and only nothing is 0 %.

    >>> percent(0.97324), percent(1, 3), percent(99999, 100000), percent(5, 5), percent(0.0), percent(1, 10**6)
    ('97.32 %', '33.33 %', '99.99 %', '100 %', '0 %', 'under 0.01 %')
    """
    if not part or part == whole:
        return "100 %" if part else "0 %"
    hundredths = round(10_000 * part / whole)
    if 0 < part < whole:
        hundredths = min(hundredths, 9999)
    return f"{hundredths / 100:.2f} %" if hundredths else "under 0.01 %"


def metric_words(metric: str, value: float | None) -> str:
    """A metric as it stands in a table.

    >>> metric_words("accuracy", 0.9), metric_words("R²", -0.25), metric_words("MAE", 208.31), metric_words("R²", None)
    ('90.00 %', '−0.2500', '208.3', 'not read')
    """
    if value is None:
        return "not read"
    if not math.isfinite(value):
        return "not known"
    if is_share(metric):
        return percent(value)
    return (f"{value:.4f}" if metric in ("R²", "log loss", "AUC", "average precision", "") else in_unit(value)).replace(
        "-", "−"
    )


def in_unit(value: float) -> str:
    """A number in a unit of the data, of any size: four digits, and more only where they stand before the point.

    >>> in_unit(0.012345), in_unit(208.31), in_unit(15432.1), in_unit(-3e12)
    ('0.01235', '208.3', '15,432', '-3e+12')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def loss_words(loss: float | None, metric: str = "") -> str:
    """A loss as it stands in a table. Beside a metric a simple model need not have one.

    >>> loss_words(1.5), loss_words(None), loss_words(math.nan, "accuracy")
    ('1.5000', 'not read', 'none')
    """
    if loss is None:
        return "not read"
    if math.isnan(loss) and metric:
        return "none"
    return f"{loss:.4f}" if math.isfinite(loss) else "infinite" if loss > 0 else "not a number"


def loss_unit_words(measure: Measure) -> str:
    """The unit of the loss with what it is the mean over.

    >>> loss_unit_words(Measure()), loss_unit_words(Measure(one="image")), loss_unit_words(Measure("squared error"))
    ('nats a token', 'nats an image', 'squared error')
    """
    return f"nats a{'n' * (measure.one[:1] in 'aeiou')} {measure.one}" if measure.loss == "nats" else measure.loss


def chance_words(probability: float | None) -> str:
    """
    >>> chance_words(0.71234), chance_words(None)
    ('0.7123', '')
    """
    return "" if probability is None or not math.isfinite(probability) else f"{probability:.4f}"


def with_prefix(n: int) -> str:
    """
    >>> with_prefix(0), with_prefix(950), with_prefix(12_345), with_prefix(3_400_000_000)
    ('', '950', '12.3 k', '3.4 G')
    """
    if not n:
        return ""
    for unit, large_count in (("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if n >= large_count:
            return f"{n / large_count:.3g} {unit}"
    return str(n)


def memory_size(n_bytes: float) -> str:
    """
    >>> memory_size(300), memory_size(13_928), memory_size(4 << 30)
    ('300 B', '13.6 KB', '4 GB')
    """
    for unit, large_count in (("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if n_bytes >= large_count:
            return f"{n_bytes / large_count:.3g} {unit}"
    return f"{n_bytes:.0f} B"


def ordinal(n: int) -> str:
    """
    >>> ordinal(2), ordinal(11), ordinal(23)
    ('2nd', '11th', '23rd')
    """
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th") if n % 100 not in (11, 12, 13) else "th"
    return f"{n}{ending}"


def symbol_labels(symbols: Sequence[str], has_boundary: bool) -> list[str]:
    """A label for each symbol. The boundary stands first, as it is; a character that looks like another shows its code.

    >>> symbol_labels(["·", " ", "a", "·", "\\x00"], has_boundary=True)
    ['·', '␣', 'a', 'U+00B7', 'U+0000']
    """
    given: dict[str, None] = {}
    for i, symbol in enumerate(symbols):
        label = symbol if has_boundary and i == 0 else _sign(symbol)
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
    return textwrap.wrap(sentence, width, break_long_words=False, break_on_hyphens=False) or [""]
