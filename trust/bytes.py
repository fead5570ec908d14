"""Random bytes, torn expressions and glued tokens into the parser: nothing may come out but an answer or our own error.

python -m trust.bytes --count 100000 --seed 1
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from trust.trees import case

from pellucid.autograd.grammar import parse
from pellucid.errors import LONGEST_LINE, PREFIX, ExpressionError, PellucidError

LONGEST_SECONDS = 0.1
MOST_EXAMPLES = 5
# What the grammar knows, what it nearly knows, and what other languages would run.
TOKENS = (
    *("0", "1", "2.5", ".5", "1.", "1e5", "1e400", "1e", "1_000", "0x10", "0b1", "00", "1,5", "９", "½", "∞"),
    *("x", "y", "w0", "_", "a1", "x" * 33, "pi", "e", "tau", "π", "inf", "nan", "x̂", "х", "ﬀ", "2x", "2(x)", "x(2)"),
    *("sin(", "cos(", "max(", "where(", "sum(", "sin", "max", "lambda", "import", "None", "eval(", "lambda:"),
    *("(", ")", "(", ")", "[", "]", "{", "}", ")(", "+", "-", "*", "/", "^", "**", "//", "%", "×", "·", "÷", "−"),
    *(",", ";", "=", ",,", ";;", "=;", "==", ":=", "!=", ".", "..", "'", '"', "`", "\\", "@", "#", "$", "&", "|"),
    *("~", "<", ">", "?", "!", ":", "√", "±", "__class__", "__import__('os')", "().__class__", "{0.__class__}"),
    *(" ", "  ", "\t", "\n", "\r", "\x00", "\x1b[2J", "\u202e", "\ufeff", "\u2028", "\ud800", "\U0001f600"),
)


@dataclass
class Tally:
    n_texts: int = 0
    n_read: int = 0
    n_refused: int = 0
    slowest: float = 0.0
    slowest_text: str = ""
    refusals: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        return not self.broken and self.slowest < LONGEST_SECONDS


def random_text(seed: int, number: int) -> str:
    """The text with this number, a pure function of both.

    >>> random_text(1, 5) == random_text(1, 5)
    True
    """
    draw = Random((seed << 40) + number)
    kind = number % 4
    if kind == 0:
        return draw.randbytes(draw.randint(0, 40)).decode("latin-1")
    if kind == 1:
        return draw.randbytes(draw.randint(0, 40)).decode("utf-8", errors="surrogateescape")
    if kind == 2:
        return "".join(draw.choices(TOKENS, k=draw.randint(0, 20)))
    return _mutated(case(seed, number).text, draw)


def _mutated(text: str, draw: Random) -> str:
    """A good expression with a few characters dropped, doubled, swapped or put in, or a token in its midst."""
    for _ in range(draw.randint(1, 4)):
        at = draw.randint(0, len(text))
        change = draw.randrange(5)
        if change == 0:
            text = text[:at] + text[at + 1 :]
        elif change == 1:
            text = text[:at] + text[at : at + 3] + text[at:]
        elif change == 2:
            text = text[:at] + draw.choice(TOKENS) + text[at:]
        elif change == 3:
            text = text[:at] + chr(draw.randrange(32, 127)) + text[at + 1 :]
        else:
            text = text[:at] + text[at:][::-1] if draw.random() < 0.2 else text[:at]
    return text


def broken_promise(text: str, error: PellucidError) -> str:
    """Which promise about messages this error breaks, or "" when it keeps them all."""
    line = PREFIX + str(error)
    if len(line) > LONGEST_LINE:
        return f"the message has {len(line)} characters"
    if not line.isprintable():
        return "the message is not one printable line"
    if not line.endswith("."):
        return "the message does not end with a point"
    if isinstance(error, ExpressionError):
        if not 1 <= error.column <= len(text) + 1:
            return f"column {error.column} is outside the text"
        excerpt = error.excerpt().split("\n")
        if len(excerpt) != 2 or not all(part.isprintable() for part in excerpt):
            return "the excerpt is not two printable lines"
    return ""


def check(text: str, tally: Tally) -> None:
    """Read one text and note what came of it."""
    tally.n_texts += 1
    started = time.process_time()
    problem = ""
    try:
        parse(text)
        tally.n_read += 1
    except PellucidError as error:
        tally.n_refused += 1
        tally.refusals[type(error).__name__] += 1
        problem = broken_promise(text, error)
    except Exception as crash:
        problem = repr(crash)
    seconds = time.process_time() - started
    if seconds > tally.slowest:
        tally.slowest, tally.slowest_text = seconds, text
    if problem:
        tally.broken.append(f"{text!r}: {problem}")


def fuzz(count: int, seed: int) -> Tally:
    tally = Tally()
    for number in range(count):
        check(random_text(seed, number), tally)
    return tally


def report(tally: Tally, seed: int) -> str:
    kinds = ", ".join(f"{n:,} {name}" for name, n in tally.refusals.most_common())
    lines = [
        f"{tally.n_texts:,} texts (seed {seed}): {tally.n_read:,} read, {tally.n_refused:,} refused ({kinds}), "
        f"{len(tally.broken)} broken promises",
        f"slowest: {tally.slowest * 1000:.1f} ms of processor time",
    ]
    return "\n".join(lines + [f"  {line}" for line in tally.broken[:MOST_EXAMPLES]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    tally = fuzz(asked.count, asked.seed)
    print(report(tally, asked.seed))
    return 0 if tally.is_well else 1


if __name__ == "__main__":
    sys.exit(main())
