"""Terminals of 80, 60 and 40 columns: no number is ever cut, and no line is longer than the terminal."""

import re

import pytest
import torch
from rich.cells import cell_len
from tests.tiny_records import ANSWERING, TINY_RUN

import pellucid
from pellucid.figures.progress import fit_progress
from pellucid.figures.show import PARTS
from pellucid.figures.tables import BAR, Table, TableColumn, parts_text, right

WIDTHS = (100, 80, 60, 40)


def number_words(text):
    """Every word with a digit in it, without the marks around it."""
    return set(re.findall(r"[\w.,:%×·−+/-]*\d[\w.,%×·−+/-]*", text))


def test_no_number_is_cut():
    for record in records():
        wide = parts_text(PARTS[type(record)](record), 400)
        for width in WIDTHS:
            narrow = parts_text(PARTS[type(record)](record), width)
            where = f"{type(record).__name__} at {width}"
            assert max(map(cell_len, narrow.splitlines())) <= width, where
            assert number_words(narrow) <= number_words(wide), where
            assert narrow.count("…") <= wide.count("…"), where


def records():
    yield from (TINY_RUN, *ANSWERING, TINY_RUN.ladder)
    yield pellucid.score("names", "maximiliane", n="3").record
    yield pellucid.sample("names", n="3", count=4).record
    yield pellucid.tokens("the capital of France is Paris", tokens="words", context=4).record
    yield pellucid.tokens("names", count=30).record
    yield pellucid.derive("tanh(x * y + 0.123456) / (z + 3)", {"x": 1.25, "y": -2.5, "z": 1234.5}).record
    model = torch.nn.Sequential(torch.nn.Linear(1000, 300), torch.nn.ReLU(), torch.nn.Linear(300, 10))
    yield pellucid.inspect(model, torch.zeros(2, 1000)).record


def ladder():
    spare = [TableColumn("tokens/s", "right", spare=2), TableColumn("seconds", "right", spare=1)]
    table = Table("model", *right("dev nats", "parameters"), *spare, TableColumn("", spare=BAR), *right("gain"))
    table.add("transformer on counting", "1.8766", "12,345,678", "98,765", "118.2", "█████", "+0.0712")
    table.add("Kneser–Ney 6-gram", "1.9478", "708,202", "", "0.5", "███", "")
    return table


def test_what_matters_least_goes_first_and_the_rest_is_folded():
    said = {width: parts_text([ladder()], width) for width in (90, 75, 58, 44, 30, 20)}
    assert "█████" in said[90]
    assert "█" not in said[75]
    assert "98,765" in said[75]
    assert "98,765" not in said[58]
    assert "118.2" not in said[58]
    for width, text in said.items():
        assert {"1.8766", "12,345,678", "+0.0712", "1.9478", "708,202"} <= set(text.split()), width
        assert max(map(cell_len, text.splitlines())) <= width
    # Folded, each part begins with what the rows are of, and they are gone through as seldom as can be.
    assert said[44].count("Kneser–Ney 6-gram") == 2


def test_a_number_too_wide_for_the_terminal_stands_alone():
    table = Table("what", *right("value"))
    table.add("parameters of all", "123,456,789,012")
    assert "123,456,789,012" in parts_text([table], 16)


@pytest.mark.parametrize("width", [100, 80, 60, 40, 27])
def test_progress_leaves_out_whole_parts(width):
    parts = ["━" * 20, "step 1,200 of 12,000 (10 %)", "loss 1.9432", "dev 1.9511", "98,765 tokens/s", "1 min 30 s left"]
    line = fit_progress(parts, width)
    assert 0 < len(line) <= width
    assert set(line.replace("━", "").split()) <= set(" ".join(parts).split())
    assert line.endswith(tuple(parts))


def test_a_terminal_too_narrow_for_a_step_gets_none():
    assert fit_progress(["━━", "step 1,200 of 12,000 (10 %)", "loss 1.9432"], 20) == ""
