"""Bad, odd and hostile tables: each ends in one line with the place and a repair, or in the very cells.

The numbers are those of the catalogue of bad inputs that pellucid promises to handle.
"""

import csv
import datetime
import decimal
import io
import json
import math
import re
import subprocess
import sys

import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.at_length import examples

from pellucid.cli.contract import answer
from pellucid.data import TableData, open_data
from pellucid.data.kinds import ReadOptions
from pellucid.data.options import DataOptions
from pellucid.data.prepare import CategoryColumn, choose_target
from pellucid.data.readers import columns as columns_reader
from pellucid.data.readers import csv as csv_reader
from pellucid.data.readers import read_table, sources
from pellucid.data.readers.columns import MISSING, decide_column, stack_tables
from pellucid.data.readers.sources import MemorySource
from pellucid.errors import PellucidError
from pellucid.figures.words.notes import note_sentences
from pellucid.figures.words.splitting import leak_words


@pytest.fixture
def write(tmp_path):
    def written(content, name="some.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def refusal(source, **options):
    with pytest.raises(PellucidError) as caught:
        open_data(source, **options)
    line = "pellucid: " + str(caught.value)
    assert len(line) <= 240
    assert line.isprintable()
    return str(caught.value)


def table(content, **options):
    """The table in a text, without a file."""
    content = content if isinstance(content, bytes) else content.encode()
    return read_table(MemorySource("some.csv", content), ReadOptions(**options))


def kinds(data):
    return {column.name: column.kind for column in data.columns}


def test_empty_or_header_only(write):
    assert "is empty" in refusal(write(""))
    assert "only white space" in refusal(write("\n\n  \n"))
    assert refusal(write("a,b\n")) == "some.csv has a header and no rows. Give it at least 2 rows."


def test_one_row_and_fewer_rows_than_classes_need(write):
    assert refusal(write("a,b\n1,2\n")) == "some.csv has 1 row, and at least 2 are needed. Give it more rows."
    few = open_data(write("x,y\n1,a\n2,b\n3,c\n4,a\n"))
    with pytest.raises(PellucidError, match="4 rows for 3 classes, and at least 6 are needed"):
        choose_target(few, "y")


def test_a_byte_order_mark_is_not_part_of_the_first_name(write):
    data = open_data(write("\ufeffspecies,mass\na,1\nb,2\n"))
    assert data.frame.columns == ["species", "mass"]
    assert note_sentences(data.notes) == ["a byte order mark at the start was left out"]
    assert choose_target(data, "mass").name == "mass"


def test_a_header_with_one_name_twice(write):
    assert refusal(write("a,b,a\n1,2,3\n")) == "columns 1 and 3 of some.csv are both called 'a'. Rename one."
    assert "columns 1 and 2" in refusal(write("a, a\n1,2\n"))


@pytest.mark.parametrize("header", ["a,,c", "a,  ,c", ",b,c", 'a,"",c', "a,b,"])
def test_a_header_with_a_blank_name(write, header):
    assert "has no name" in refusal(write(f"{header}\n1,2,3\n4,5,6\n"))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("1,2\n3,4,5\n", "a row has 3 cells where the header has 2 in some.csv:3"),
        ("1,2\n3\n5,6\n", "a row has 1 cell where the header has 2 in some.csv:3"),
        ('1,"x\ny"\n3\n', "a row has 1 cell where the header has 2 in some.csv:4"),
        ("1,2\n\n5,6\n", "a line is empty in some.csv:3"),
        ("1,2\r\n\r\n5,6\r\n", "a line is empty in some.csv:3"),
        ("1,2\n3,4\n5,6,", "a row has 3 cells where the header has 2 in some.csv:4"),
    ],
)
def test_long_and_short_rows(write, rows, says):
    assert says in refusal(write("a,b\n" + rows))


def test_far_down_in_another_block(write):
    n = 3_000_000  # more than one block of the scanner
    content = b"a,b\n" + b"123,456\n" * n + b"7\n" + b"8,9\n"
    assert f"in some.csv:{n + 2:,}" in refusal(write(content))


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ('1,2\n"x,4\n5,6\n', 3),
        ('1,2\n"x,4\n5,"6"\n', 3),
        ('1,2\n3,4\n5,"6', 4),
        ('"1",2\n"x"y,4\n', 3),
        ('"a ""b"" c",2\n"never,4\n"5",6\n', 3),
    ],
)
def test_an_unclosed_quote_is_named_by_the_line_it_opens_on(write, rows, line):
    assert f"the quote that opens on line {line} is never closed properly" in refusal(write("a,b\n" + rows))


def test_a_quote_in_the_middle_of_a_cell(write):
    says = refusal(write('a,b\n1,2\n5" pipe,4\n'))
    assert "a quote stands inside a cell that does not begin with one in some.csv:3" in says


def test_a_carriage_return_on_its_own(write):
    assert "a carriage return stands alone in some.csv:3" in refusal(write("a,b\n1,2\n3\r4,5\n6,7\n"))
    assert open_data(write('a,b\n1,"x\ry"\n2,z\n')).frame["b"].to_list() == ["x\ry", "z"]


def test_another_separator_is_recognised(write):
    assert refusal(write("a;b\n1,5;2\n3,1;4\n")) == "some.csv looks separated by a semicolon. Try separator=';'."
    assert refusal(write("a\tb\n1\t2\n3\t4\n")) == "some.csv looks separated by a tab. Try separator='tab'."
    assert "looks separated by a bar" in refusal(write("a|b\n1|2\n3|4\n"))
    assert "looks separated by a comma" in refusal(write("a,b\n1,2\n3,4\n", "some.tsv"))
    data = open_data(write("a;b\n1,5;2\n3,1;4\n"), separator=";", as_number=["a"])
    assert data.frame.rows() == [(1.5, 2), (3.1, 4)]
    assert open_data(write("a\tb\n1\t2\n3\t4\n", "some.tsv")).frame.rows() == [(1, 2), (3, 4)]
    assert "cannot separate cells" in refusal(write("a,b\n1,2\n3,4\n"), separator="ab")


def test_invalid_utf8_by_line_and_column(write):
    says = refusal(write(b"a,b\n1,x\n2,caf\xe9\n"))
    assert (
        says
        == "a cell is not UTF-8 at byte 13 in some.csv:3, column 'b'. It looks like LATIN-1; try encoding='latin-1'."
    )
    assert open_data(write(b"a,b\n1,x\n2,caf\xe9\n"), encoding="latin-1").frame["b"].to_list() == ["x", "café"]
    assert "looks like UTF-16" in refusal(write("a,b\n1,2\n3,4\n".encode("utf-16")))
    assert "looks like UTF-16-LE" in refusal(write("a,b\n1,2\n3,4\n".encode("utf-16-le")))
    assert open_data(write("a,b\n1,2\n3,4\n".encode("utf-16")), encoding="utf-16").frame.rows() == [(1, 2), (3, 4)]


def test_nul_is_refused_in_numbers_and_kept_in_text(write):
    assert "holds a NUL in column 'a', some.csv:3" in refusal(write(b"a,b\n1,x\n2\x003,y\n4,z\n"))
    assert open_data(write(b"a,b\n1,x\n2,y\x00z\n")).frame["b"].to_list() == ["x", "y\0z"]


@pytest.mark.parametrize(("asked", "meant"), [("Species", "species"), ("speces", "species"), (" species ", "species")])
def test_a_target_that_is_not_there(asked, meant):
    with pytest.raises(PellucidError, match=f"has no column .* Perhaps you meant '{meant}'"):
        choose_target(open_data("penguins"), asked)
    with pytest.raises(PellucidError, match="It has 'species', 'island'"):
        choose_target(open_data("penguins"), "zzz")


def test_rows_without_a_target_are_left_out_and_counted_or_refused():
    data = open_data("penguins")
    target = choose_target(data, "sex")
    assert target.frame.height == 333
    assert "11 of 344 rows have no sex and were left out" in note_sentences(target.notes)
    with pytest.raises(PellucidError, match=r"11 of 344 rows have no target 'sex' \(first: line 5\)"):
        choose_target(data, "sex", refuse_missing=True)
    with pytest.raises(PellucidError, match="contradict"):
        DataOptions(target="sex", refuse_missing_target=True, drop_missing_target=True)


def test_none_is_a_category_where_it_is_frequent_among_words():
    rows = [
        (("None", "gravel", "paved")[i % 3], "NA" if i % 50 == 0 else "left", "None" if i % 2 else i)
        for i in range(150)
    ]
    text = "alley,side,size\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows)
    data = table(text)
    assert data.frame["alley"].null_count() == 0
    assert data.frame["side"].null_count() == 3  # one in fifty: a gap
    assert data.frame["size"].null_count() == 75  # numbers have no name for nothing
    assert (
        "'alley' holds 'None' 50 times, read as a category; missing_values=words reads it as missing"
        in note_sentences(data.notes)
    )
    assert "missing cells: side 3, size 75" in note_sentences(data.notes)
    assert table(text, missing_values="words").frame["alley"].null_count() == 50
    assert table("alley,x\nNone,1\nNone,2\n", names_none=["alley"]).frame["alley"].to_list() == ["None", "None"]
    assert table(text, names_none=[]).frame["alley"].null_count() == 50


def test_a_constant_target():
    with pytest.raises(PellucidError, match="the target 'y' is '1' in every row"):
        choose_target(table("x,y\n1,1\n2,1\n3,1\n"), "y")


def test_a_class_with_one_member_is_noted():
    target = choose_target(table("x,y\n1,a\n2,a\n3,a\n4,b\n5,b\n6,c\n"), "y")
    assert "1 classes have one member, which stays in train" in note_sentences(target.notes)


def test_numbers_are_no_classes():
    rows = "\n".join(f"{i % 7},{i * 0.37:.4f}" for i in range(2000))
    with pytest.raises(PellucidError, match=r"2,000 classes. It looks numeric; try task='regression'"):
        choose_target(table("x,y\n" + rows), "y", task="classification")
    assert choose_target(table("x,y\n" + rows), "y").task == "regression"
    names = "\n".join(f"{i % 7},user{i}" for i in range(2000))
    with pytest.raises(PellucidError, match="looks like an id"):
        choose_target(table("x,y\n" + names), "y")


@pytest.mark.parametrize("cell", ["inf", "-inf", "Infinity", "1e400", "-1e999"])
def test_what_is_not_finite_is_named_by_its_cell(cell):
    with pytest.raises(PellucidError, match=f"the cell '{cell}' is .* in column 'b', some.csv:3"):
        table(f"a,b\n1,2.5\n3,{cell}\n4,5\n")


def test_the_ends_of_the_range_work():
    found = table("a\n-0.0\n5e-324\n1.7976931348623157e308\n").frame["a"].to_list()
    assert found == [0.0, 5e-324, 1.7976931348623157e308]
    assert math.copysign(1, found[0]) == -1


@pytest.mark.parametrize("cell", ["9007199254740993", "12345678901234567890", "-99999999999999999999999", "00123"])
def test_numbers_that_would_be_rounded_stay_text(cell):
    data = table(f"a,b\n{cell},2\n3,3\n")
    assert data.frame["a"].to_list() == [cell, "3"]
    assert kinds(data)["a"] == "text"
    assert "kept as text and not rounded" in note_sentences(data.notes)[0]
    assert table("a,b\n9007199254740992,2\n3,3\n").frame["a"].to_list() == [2**53, 3]


def test_one_list_of_missing_cells_and_a_count_for_each_column():
    cells = [cell for cell in MISSING if cell] + [""]
    data = table("a,b\n" + "".join(f"{cell},x\n" for cell in cells) + "1,y\n2.5,\n")
    assert data.frame["a"].to_list() == [None] * len(cells) + [1.0, 2.5]
    assert note_sentences(data.notes)[0] == f"missing cells: a {len(cells)}, b 1"
    strict = table("a,b\nNA,x\n,y\n", missing_values="empty")
    assert strict.frame["a"].to_list() == ["NA", None]
    with pytest.raises(PellucidError, match="Choose one of usual, words, empty"):
        table("a,b\n1,2\n3,4\n", missing_values="some")


def test_nan_is_missing_among_numbers_and_a_name_among_names():
    data = table("name,n\nnan,1.5\ntrue,nan\nTrue,-nan\nNan,2\n")
    assert data.frame["name"].to_list() == ["nan", "true", "True", "Nan"]
    assert data.frame["n"].to_list() == [1.5, None, None, 2.0]


def test_columns_that_say_nothing_are_left_out_with_a_note():
    data = table("x,empty,same,y\n1,,7,a\n2,,7,b\n3,,7,a\n4,,7,b\n")
    assert "'empty' has no value at all" in note_sentences(data.notes)
    target = choose_target(data, "y")
    assert target.features == ("x",)
    assert "empty has no value and was left out" in note_sentences(target.notes)
    assert "same is the same in every row and was left out" in note_sentences(target.notes)
    with pytest.raises(PellucidError, match="no column is left to predict"):
        choose_target(table("x,y\n1,a\n1,b\n1,a\n1,b\n"), "y")


def test_types_are_decided_on_the_whole_column():
    data = table("a,b\n" + "1,2\n" * 200_000 + "1,oops\n")
    assert kinds(data) == {"a": "numeric", "b": "category"}
    assert (
        note_sentences(data.notes)[-1]
        == "'b' is text because of 'oops' (some.csv:200002); 200,000 of its cells are numbers"
    )
    assert table("a\n" + "1\n" * 200_000 + "1.5\n").frame["a"].dtype == polars.Float64


def test_dressed_numbers_and_dates():
    content = 'price,share,big,day,when\n$1.50,5%,"1,234",2024-01-02,1/2/2024\n$2,6 %,"12,345",2024-01-03,3/2/2024\n'
    data = table(content)
    assert kinds(data) == {
        "price": "category",
        "share": "category",
        "big": "category",
        "day": "order",
        "when": "category",
    }
    assert "'price' looks like numbers, as '$1.50'; as_number=price reads them" in note_sentences(data.notes)
    assert any("'when' looks like dates" in note for note in note_sentences(data.notes))
    read = table(content, as_number=("price", "share", "big"))
    assert read.frame.select("price", "share", "big").rows() == [(1.5, 5, 1234), (2.0, 6, 12345)]
    with pytest.raises(
        PellucidError, match=r"the cell '1/2/2024' cannot be read as a number in column 'when', some.csv:2"
    ):
        table(content, as_number=("when",))
    with pytest.raises(PellucidError, match="Perhaps you meant 'price'"):
        table(content, as_number=("prise",))


def test_dates_with_dots_are_read_day_first_and_those_with_slashes_are_not():
    data = table("when,x\n31.12.2024,1\n1.2.2023,2\n,3\n")
    assert kinds(data)["when"] == "order"
    assert data.frame["when"].to_list() == ["2024-12-31", "2023-02-01", None]
    assert any("day first, as 31.12.2024 is 2024-12-31" in note for note in note_sentences(data.notes))
    for cells in ("31.12.2024,1\n12.31.2024,2", "31/12/2024,1\n1/2/2023,2", "30.2.2024,1\n1.2.2024,2"):
        assert kinds(table(f"when,x\n{cells}\n"))["when"] != "order"


def test_a_category_never_seen_has_its_own_place():
    categories = CategoryColumn.learn("letter", ["b", "a", None, "b"])
    codes, n_unknown = categories.encode(["a", "z", None, "b"])
    assert (codes.tolist(), n_unknown, categories.values) == ([1, 0, 0, 2], 1, ("a", "b"))


def test_a_feature_that_is_the_target():
    data = table("x,copy,y\n" + "".join(f"{i * i % 11},{3 * i + 1},{i}\n" for i in range(40)))
    target = choose_target(data, "y", task="regression")
    assert not target.leaks  # copy only grows, as row numbers do, and is not read
    shuffled = table("x,copy,y\n" + "".join(f"{i * i % 11},{3 * (7 * i % 40) + 1},{7 * i % 40}\n" for i in range(40)))
    (leak,) = choose_target(shuffled, "y", task="regression").leaks
    assert (leak.column, leak.kind) == ("copy", "copy")
    assert leak.foretold == pytest.approx(1)
    assert leak_words(leak).startswith("copy gives the target away: correlation 1.0000")
    labels = table("x,code,y\n" + "".join(f"{i * i % 11},{'pq'[i % 2]},{'ab'[i % 2]}\n" for i in range(40)))
    assert [(leak.column, leak.kind) for leak in choose_target(labels, "y").leaks] == [("code", "foretells")]
    assert any("rows repeat an earlier one" in note for note in note_sentences(choose_target(labels, "y").notes))


def test_what_does_not_fit_is_refused_with_the_size(write, monkeypatch):
    path = write("a,b\n1,2\n3,4\n")
    wide = write(",".join(f"c{i}" for i in range(100_000)) + "\n", "wide.csv")
    assert "100,000 columns, and at most 20,000 are read" in refusal(wide)
    monkeypatch.setattr(sources, "physical_memory", lambda: 10)
    assert "of memory, and this machine has" in refusal(path)


def test_a_cell_of_a_hundred_megabytes(write):
    path = write(b"a,b\n1,2\n3," + b"x" * 100_000_000 + b"\n")
    assert "a row of 100,000,002 bytes is longer than 16,777,216 in some.csv:3" in refusal(path)
    assert "the first line is longer than" in refusal(write(b"x" * 20_000_000))


def parquet_bytes(frame, **options):
    file = io.BytesIO()
    frame.write_parquet(file, **options)
    return file.getvalue()


FRAME = polars.DataFrame(
    {"a": range(1000), "b": [f"text {i % 7}" for i in range(1000)], "c": [i / 7 for i in range(1000)]}
)


def test_parquet_reads_back(write):
    for options in ({}, {"compression": "uncompressed"}, {"compression": "snappy"}, {"row_group_size": 100}):
        data = open_data(write(parquet_bytes(FRAME, **options), "some.parquet"))
        assert data.frame.equals(FRAME)
        assert kinds(data) == {"a": "order", "b": "category", "c": "numeric"}


def test_damaged_parquet(write):
    content = parquet_bytes(FRAME)
    for cut in (0, 3, 4, 12, len(content) // 2, len(content) - 1):
        says = refusal(write(content[:cut], "some.parquet"))
        assert "is empty" in says or "no sound Parquet file" in says
    assert "does not begin with PAR1" in refusal(write(b"XXXX" + content[4:], "some.parquet"))
    footer = int.from_bytes(content[-8:-4], "little")
    for at in range(len(content) - 8 - footer, len(content) - 8, 7):
        wrong = bytearray(content)
        wrong[at] ^= 0xFF
        try:
            open_data(write(bytes(wrong), "some.parquet"))
        except PellucidError:
            continue


def test_checksums_are_checked(write):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pyarrow.table(FRAME.to_dict(as_series=False)), file, write_page_checksum=True, compression="none")
    content = file.getvalue()
    assert open_data(write(content, "some.parquet")).frame.equals(FRAME)
    wrong = bytearray(content)
    wrong[content.index(b"text 3") + 2] ^= 1
    assert "the checksum of the page at byte" in refusal(write(bytes(wrong), "some.parquet"))


def test_instants_of_96_bits_are_read_as_dates(write):
    """INT96, which Spark and Hive wrote for years: nanoseconds of a day and the number of the day, in 12 bytes."""
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    instants = [datetime.datetime(1969, 12, 31, 23, 59, 59), datetime.datetime(2024, 2, 29, 1, 2, 3, 456_789)]
    file = io.BytesIO()
    pq.write_table(pyarrow.table({"at": instants, "n": [1, 2]}), file, use_deprecated_int96_timestamps=True)
    assert pq.read_schema(file).field("at").type == pyarrow.timestamp("ns")  # no other kind of column becomes that
    data = open_data(write(file.getvalue(), "some.parquet"))
    assert kinds(data)["at"] == "order"
    assert [datetime.datetime.fromisoformat(text[:26]) for text in data.frame["at"]] == instants


def test_a_parquet_bomb_is_refused_from_its_metadata(write, monkeypatch):
    bomb = parquet_bytes(polars.DataFrame({f"c{i}": polars.repeat(0, 4_000_000, eager=True) for i in range(12)}))
    assert len(bomb) < 300_000
    says = refusal(write(bomb, "bomb.parquet"))
    assert "would unpack from" in says
    assert "to 0.38 GB" in says
    # Few rows, each of them long: told by the pages alone, for the schema says nothing of how far texts unpack.
    bomb = parquet_bytes(polars.DataFrame({"a": ["x" * 150_000_000, "y" * 150_000_000]}), statistics=False)
    assert len(bomb) < 100_000
    assert re.search(r"would unpack from [\d,]+ bytes to 0\.3 GB", refusal(write(bomb, "bomb.parquet")))
    with monkeypatch.context() as patch:
        patch.setattr(sources, "physical_memory", lambda: 1000)
        assert "needs about" in refusal(write(parquet_bytes(FRAME), "some.parquet"))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([[1], [2, 3]], "'odd' of some.parquet is a list"),
        ([{"x": 1}, {"x": 2}], "'odd' of some.parquet is a structure"),
        ([decimal.Decimal("1.5"), decimal.Decimal("2")], "'odd' of some.parquet is a decimal"),
        ([datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)] * 2, "is a time with a time zone"),
        ([datetime.time(1, 2), datetime.time(3, 4)], "'odd' of some.parquet is a time"),
        ([b"x", b"y"], "'odd' of some.parquet is a column of bytes"),
        ([datetime.timedelta(1), datetime.timedelta(2)], "'odd' of some.parquet is a Duration"),
    ],
)
def test_exotic_types_are_named(write, values, says):
    frame = polars.DataFrame({"a": [1, 2], "odd": values})
    assert says in refusal(write(parquet_bytes(frame), "some.parquet"))


def test_plain_types_of_parquet(write):
    frame = polars.DataFrame(
        {
            "day": [datetime.date(2024, 1, 2), None],
            "at": [datetime.datetime(2024, 1, 2, 3), datetime.datetime(2024, 1, 3)],
            "yes": [True, False],
            "small": polars.Series([1, 2], dtype=polars.UInt8),
            "large": [2**60, 1],
            "tier": polars.Series(["x", "y"], dtype=polars.Categorical),
            "real": [math.nan, 1.5],
        }
    )
    data = open_data(write(parquet_bytes(frame), "some.parquet"))
    assert data.frame.row(0)[:4] == ("2024-01-02", "2024-01-02T03:00:00", "true", 1) or data.frame["small"][0] == 1
    assert data.frame["large"].to_list() == [str(2**60), "1"]
    assert data.frame["tier"].to_list() == ["x", "y"]
    assert data.frame["real"].to_list() == [None, 1.5]
    assert kinds(data)["day"] == "order"
    infinite = polars.DataFrame({"a": [1.0, math.inf]})
    assert "not finite in column 'a', row 2" in refusal(write(parquet_bytes(infinite), "some.parquet"))


def test_a_dash_is_standard_input():
    code = "from pellucid.data import open_data; d = open_data('-', kind='table'); print(d.frame.rows())"
    run = subprocess.run(
        [sys.executable, "-c", code], input="a,b\n1,2\n3,4\n", capture_output=True, text=True, check=True
    )
    assert run.stdout == "[(1, 2), (3, 4)]\n"


def test_files_with_different_columns():
    first, second, third = table("a,b\n1,2\n3,4\n"), table("b,a\n6,5\n8,7\n"), table("a,c\n1,2\n3,4\n")
    assert stack_tables([first, second]).frame.rows() == [(1, 2), (3, 4), (5, 6), (7, 8)]
    with pytest.raises(PellucidError, match="has no column 'b', and"):
        stack_tables([first, second, third])
    with pytest.raises(PellucidError, match=r"is numeric in .* and category in"):
        stack_tables([first, table("a,b\n1,x\n3,x\n")])


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ('{"a": 1}\n{"a": [1]}\n', "column 'a' holds a list in some.jsonl:2"),
        ('{"a": 1}\n{"a": 2, "a": 3}\n', "the key 'a' stands twice in some.jsonl:2"),
        ('{"a": 1}\n[2]\n', "a list stands where an object is wanted in some.jsonl:2"),
        ('{"a": 1}\n{"a": NaN}\n', "the value of 'a' is not finite in some.jsonl:2"),
        ('{"a": 1}\n{"a": 1e400}\n', "the value of 'a' is not finite in some.jsonl:2"),
        ('{"a": 1}\n{"a": 2\n', "this is no JSON object"),
        ('{"a": 1}\n{"a": ' + "[" * 100_000 + "\n", "nested too deep in some.jsonl:2"),
        ('{"a": 1}\n{"a": ' + "9" * 5000 + "}\n", "this is no JSON object"),
        ('{"a": "\\ud800"}\n{"a": "x"}\n', "holds half a surrogate pair"),
        ('{"": 1}\n{"": 2}\n', "has no name"),
        ('{"a": 1}\n', "has 1 row"),
    ],
)
def test_json_lines_are_checked_line_by_line(write, lines, says):
    assert says in refusal(write(lines, "some.jsonl"))


def test_json_lines_read_back(write):
    rows = [{"n": 1, "x": 1.5, "s": "nan", "b": True}, {"n": 2, "x": 2, "s": "NA", "z": 2**60}, {"n": None, "b": False}]
    data = open_data(write("\n".join(json.dumps(row) for row in rows) + "\n", "some.jsonl"))
    assert data.frame.rows() == [
        (1, 1.5, "nan", "true", None), (2, 2.0, "NA", None, str(2**60)), (None, None, None, "false", None)
    ]  # fmt: skip
    mixed = open_data(write('{"a": 1}\n{"a": "x"}\n', "some.jsonl"))
    assert note_sentences(mixed.notes)[-1] == "'a' mixes texts and numbers, so it is text; first text on line 2"


cell = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=8),
    st.sampled_from(["", "NA", "1", "-2.5", "1e5", "007", "nan", "true", 'say "hi"', "a,b", "two\nlines", " x "]),
)


@settings(max_examples=examples(150))
@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(cell, min_size=n, max_size=n), min_size=2, max_size=12)))
def test_what_python_writes_is_read_back_cell_by_cell(rows):
    """Against an independent writer: every cell comes back, or counts as missing, or the file is refused."""
    file = io.StringIO()
    names = [f"c{i}" for i in range(len(rows[0]))]
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([names, *rows])
    try:
        data = table(file.getvalue())
    except PellucidError as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert "finite" in said or "too large" in said  # such as inf in a column of numbers
        return
    for i, name in enumerate(names):
        read = data.frame[name].to_list()
        for row, value in zip(rows, read, strict=True):
            written = row[i]
            if value is None:
                assert written.strip() in (*MISSING, "nan")
            elif isinstance(value, str):
                assert value == written
            else:
                assert float(written) == value


def test_a_table_is_said_with_its_reason(write, capsys):
    data = open_data(write("a,b\n1,2\n3,4\n"))
    assert isinstance(data, TableData)
    assert data.description == "some.csv: a table of 2 rows and 2 columns (its name ends in .csv)"
    assert answer(lambda: open_data(write("a,b\n1\n")), []) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_polars_is_not_loaded_for_what_is_refused(write):
    path = write("a,b\n1,2\n3\n")
    code = (
        "import sys\nfrom pellucid.data import open_data\nfrom pellucid.errors import PellucidError\n"
        f"try: open_data({str(path)!r})\nexcept PellucidError as error: print(error)\n"
        "print([name for name in ('torch', 'polars') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert run.stdout.splitlines()[-1] == "[]"


LINES = st.lists(st.sampled_from(["a,b", "1,22", "1", "", "1,2,3", '"x",y', "é,ö", "\r"]), min_size=1, max_size=6)


@given(LINES)
@settings(max_examples=examples(300))
def test_lines_without_quotes_are_counted_as_byte_by_byte(lines):
    """Either the short way says nothing, or what the long way says."""
    content = "\n".join(lines).rstrip("\r\n").encode()
    n_lines = csv_reader._even_lines(content, ",")
    if n_lines is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_reader, "_plain_cells", None)
        patch.setattr(csv_reader, "_even_lines", lambda content, separator: None)
        patch.setattr(csv_reader, "require_header", lambda names, name: names)
        rows = csv_reader.check_rows(content, ",", "t.csv")
    assert (rows.n_rows, rows.lines) == (n_lines - 1, None)


def test_the_short_way_is_taken_and_sees_a_row_that_is_too_long(monkeypatch):
    assert csv_reader._even_lines(b"a,b\n1,2\n3,4", ",") == 3
    monkeypatch.setattr(csv_reader, "LONGEST_ROW", 4)
    assert csv_reader._even_lines(b"a,b\n12,3\n3,4", ",") == 3
    assert csv_reader._even_lines(b"a,b\n12,34\n3,4", ",") is None


CELLS = st.lists(
    st.sampled_from(
        ["7", "-7", "07", "+7", "-0", "0", " 7", "7.5", "1e2", "NA", "", "red", "blue ", "2024-01-02", "12"]
    )
    | st.integers(-(2**63), 2**63 - 1).map(str),
    min_size=1,
    max_size=4,
)


@given(CELLS, st.sampled_from([1, 3, 40]))
@settings(max_examples=examples(300))
def test_a_column_is_what_it_is_by_the_short_ways_too(cells, n_times):
    """Columns of many rows are told by their first cells and their different cells; a twin looks at every cell."""
    column = polars.Series("c", cells * n_times, dtype=polars.String)

    def decide():
        try:
            found = decide_column(column, str)
        except PellucidError as error:
            return str(error)
        return found.values.to_list(), found.values.dtype, found.column, found.notes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_reader, "MANY", 20)
        patch.setattr(columns_reader, "SOME", 2)
        short = decide()
        patch.setattr(columns_reader, "_plain_names", lambda cells: None)
        patch.setattr(columns_reader, "_is_as_written", lambda cells, whole: (whole.cast(polars.String) == cells).all())
        patch.setattr(columns_reader, "SOME", 10**9)
        patch.setattr(columns_reader, "MANY", 10**9)
        assert short == decide()
