"""What a run's data are, in words: its sides, what is read of them, and what is to be said about them."""

import math

from pellucid.data.kinds import KINDS
from pellucid.figures.words.numbers import count_of, percent
from pellucid.figures.words.text import cut_end
from pellucid.records import DataFacts

MOST_CLASSES, LONGEST_CLASS = 12, 20


# How a file could be read otherwise.
OTHER_KINDS = {
    "list": "--kind text to read it as running text",
    "text": "--kind list to read each line as an item",
    "table": "--kind text to read it as text",
    "pairs": "--kind table to read it as a table",
    "images": "--kind list, text or table wants a file",
}


def describe_source(description: str, kind: str, is_file: bool) -> str:
    """What was inferred of the data, and how to say otherwise where they are a user's own.

    >>> describe_source("a.txt: a list of 3 items", "list", is_file=True)
    'a.txt: a list of 3 items; --kind text to read it as running text'
    """
    return f"{description}; {OTHER_KINDS[kind]}" if is_file and kind in OTHER_KINDS else description


def example_noun(kind: str) -> str:
    """What one example of such data is called.

    >>> example_noun("images"), example_noun("list")
    ('image', 'item')
    """
    return KINDS[kind].example if kind in KINDS else "item"


def source_noun(kind: str) -> str:
    """What the thing is called that was read for an answer.

    >>> source_noun("pairs"), source_noun("table")
    ('source', 'row')
    """
    return "source" if kind == "pairs" else example_noun(kind)


def has_tokens(data: DataFacts) -> bool:
    """Whether the data are sequences, whose tokens are predicted: lists, texts and pairs."""
    return data.kind not in KINDS or KINDS[data.kind].family != "examples"


def is_judged(data: DataFacts) -> bool:
    """Whether an answer is right or wrong, and not only nearer or farther, as a number is."""
    return data.task not in ("regression", "reconstruction")


def side_sizes(data: DataFacts) -> dict[str, str]:
    """How much each side holds: examples, and of sequences the tokens that are predicted."""
    sizes = {}
    for side, n in data.n_tokens.items():
        if has_tokens(data):
            items = data.items.get(side, 0)
            held = f"{count_of(items, example_noun(data.kind))}, " if items else ""
            sizes[side] = f"{held}{count_of(n, 'token')}"
        else:
            sizes[side] = count_of(n, example_noun(data.kind))
    return sizes


def task_words(data: DataFacts) -> str:
    """What a network of rows or images is to say, and what guessing would come to.

    >>> rows = DataFacts("a.csv", "", "table", "", "", 2, ("no", "yes"), {}, {}, task="classification", target="paid")
    >>> task_words(rows)
    'predicts paid, one of 2 classes (no, yes); guessing is right in 50.00 % and costs ln 2 = 0.6931 nats'
    >>> task_words(rows._replace(task="regression", vocab_size=0))
    'predicts paid, a number; always saying the mean of train comes to an R² of about 0'
    """
    if data.task == "reconstruction":
        return "gives back what it read, through a narrow place; the mean of train comes to an R² of about 0"
    predicts = f"predicts {data.target}" if data.target else "predicts"
    if data.task == "regression":
        return f"{predicts}, a number; always saying the mean of train comes to an R² of about 0"
    shown = [cut_end(name, LONGEST_CLASS) for name in data.symbols[:MOST_CLASSES]]
    more = [f"{len(data.symbols) - MOST_CLASSES:,} more"] if len(data.symbols) > MOST_CLASSES else []
    # The classes of images often have no better name than that.
    among = f"{predicts}, one of" if data.target not in ("", "class") else "predicts one of"
    n = max(1, data.vocab_size)
    guessing = f"guessing is right in {percent(1 / n)} and costs {guessing_costs(n)} nats"
    return f"{among} {data.vocab_size:,} classes ({', '.join([*shown, *more])}); {guessing}"


def guessing_costs(n: int) -> str:
    """
    >>> guessing_costs(3)
    'ln 3 = 1.0986'
    """
    return f"ln {n:,} = {math.log(n):.4f}" if n > 0 else "nothing: there is no symbol, so 0"
