"""Tables read by compiled code in one pass and by NumPy and Polars: the same columns, notes and refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.at_length import examples

from pellucid.data.kinds import ReadOptions
from pellucid.data.readers import csv as csv_reader
from pellucid.data.readers import read_table
from pellucid.data.readers.sources import MemorySource
from pellucid.errors import PellucidError

needs_compiled = pytest.mark.skipif(
    csv_reader._plain_cells is None, reason="pellucid was installed without a C compiler"
)

NUMBERS = st.integers(-(2**63), 2**63) | st.integers(-999, 999) | st.sampled_from([2**53, 2**53 + 1, -(2**53), 10**16])
ODD = ["-0", "00", "07", "+7", "-", " 7", "7 ", "7.5", "1e2", "", "NA", "None", "1\0", "é", "9" * 16, "1" * 17, '"a"']
NAMES = ["red", "blue", "a", "ab", "seven77", "eight888", "nine99999", "nine99998", "sixteen_letters_", "é" * 8]
CELL = st.sampled_from(NAMES) | st.sampled_from(NAMES + ODD) | NUMBERS.map(str)


def read(content, **options):
    try:
        table = read_table(MemorySource("some.csv", content), ReadOptions(**options))
    except PellucidError as error:
        return str(error)
    return table.frame.to_dict(as_series=False), table.frame.schema, table.columns, table.notes, table.fingerprint


def assert_both_read_the_same(content, **options):
    compiled = read(content, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_reader, "_plain_cells", None)
        assert compiled == read(content, **options)
    return compiled


@st.composite
def tables(draw):
    separator = draw(st.sampled_from([",", ";", "\t", "-", "|"]))
    n_rows = draw(st.integers(1, 12))
    columns = [
        draw(st.lists(cells, min_size=n_rows, max_size=n_rows))
        for cells in draw(st.lists(st.sampled_from([NUMBERS.map(str), st.sampled_from(NAMES), CELL]), max_size=4))
    ]
    lines = [separator.join(f"c{place}" for place in range(len(columns)))]
    lines += [separator.join(cells) for cells in zip(*columns, strict=True)]
    if draw(st.integers(0, 9)) == 0:
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(["", "1", separator, "x" * 40])))
    end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n"]))
    return separator, (end.join(lines) + draw(st.sampled_from(["", end, 2 * end]))).encode()


@needs_compiled
@given(tables(), st.sampled_from(["usual", "empty", "words"]))
@settings(max_examples=examples(400), deadline=None)
def test_any_table_is_read_alike(table, missing_values):
    separator, content = table
    assert_both_read_the_same(content, separator=separator, missing_values=missing_values)


@needs_compiled
@pytest.mark.parametrize("n_names", [1024, 1025, 3000])
def test_names_are_counted_up_to_a_limit(n_names):
    cells = [f"name {number}" for number in range(n_names)] * 2
    content = ("n,s\n" + "".join(f"{row},{cell}\n" for row, cell in enumerate(cells))).encode()
    n_rows, (numbers, names) = csv_reader._plain_cells.read(content, 4, ",", 2, 1 << 20)
    assert n_rows == 2 * n_names
    assert np.frombuffer(numbers, np.int64).tolist() == list(range(n_rows))
    assert names is None if n_names > 1024 else names[1] == cells[:n_names]
    assert_both_read_the_same(content)


@needs_compiled
def test_of_many_columns_not_all_get_a_table_of_names():
    """A table takes 32 KB, and a line of a few bytes may hold very many columns."""
    n_columns = 1030
    content = b",".join(b"c%d" % place for place in range(n_columns)) + b"\n" + 2 * (b"x," * (n_columns - 1) + b"7\n")
    start = content.index(b"\n") + 1
    n_rows, columns = csv_reader._plain_cells.read(content, start, ",", n_columns, 1 << 20)
    assert n_rows == 2
    assert [column is None for column in columns] == [False] * 1024 + [True] * 5 + [False]
    assert_both_read_the_same(content)


@needs_compiled
@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n3,4", b"a,b\n1,2\n3,4\n", b"a\n1\n2\n", b"a,b\n1,\n,2", b"a,b\nx,y\n1,y\n"]
)
def test_a_plain_table_is_read_in_one_pass(content):
    assert csv_reader.check_rows(content, ",", "t.csv").columns


@needs_compiled
@pytest.mark.parametrize(
    "content",
    [b"", b"a", b"a\n", b"a,b\n1", b"a,b\n1,2,3", b"a\n1\n\n2", b'a\n"1"', b"a\r\n1", b"\n1", b"a,b\n1,2345678\n"],
)
def test_what_is_not_plain_is_left_to_others(content, monkeypatch):
    monkeypatch.setattr(csv_reader, "LONGEST_ROW", 8)
    assert csv_reader._plain_rows(content, ",", "t.csv") is None


@needs_compiled
def test_what_no_table_has_is_refused():
    for words in [(b"a\n1", 3, ",", 1, 9), (b"a\n1", -1, ",", 1, 9), (b"a\n1", 2, ",", 0, 9), (b"a\n1", 2, "é", 1, 9)]:
        with pytest.raises(ValueError, match="wanted"):
            csv_reader._plain_cells.read(*words)
    with pytest.raises(TypeError):
        csv_reader._plain_cells.read(bytearray(b"a\n1"), 2, ",", 1, 9)
