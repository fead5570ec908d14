"""What open_data takes a file for, and how it says so."""

from pathlib import Path

import pytest

from pellucid import cards
from pellucid.data import DatasetCard, ListData, PairsData, TableData, TextData, datasets, open_data, require_kind
from pellucid.data.readers import guess_kind
from pellucid.errors import PellucidError
from pellucid.figures.words.notes import note_sentences

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        ("emma\nolivia\nava\n", "list"),
        ("new york\nlos angeles\nsan jose\n", "list"),
        ("Smith, John\nDoe\nMiller, Eva\n", "list"),
        ("one\n", "text"),
        ("To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer\n", "text"),
        ("x" * 200 + "\n" + "y" * 200 + "\n", "text"),
        ("a\n\n\nb\n\n\nc\n", "text"),
        ("name,age\nemma,3\nava,4\n", "table"),
        ("a;b\n1;2\n", "table"),
        ("a\tb\tc\n1\t2\t3\n", "table"),
        ("one\tun\ntwo\tdeux\n", "pairs"),
        ('{"a": 1}\n{"a": 2}\n', "table"),
        ("Yes, he said.\nNo, she said.\n", "list"),
        ("1,2\n3,4\n", "list"),
    ],
)
def test_kinds_are_told_by_the_first_lines(sample, kind):
    assert guess_kind(sample, is_all=True).kind == kind


def test_a_kind_can_be_named(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("one\tun\ntwo\tdeux\n")
    for kind, expected in (("", PairsData), ("pairs", PairsData), ("list", ListData), ("text", TextData)):
        assert isinstance(open_data(path, kind=kind), expected)
    path.write_text("one\tun\ntwo\tdeux\ntrois\tthree\n")
    assert isinstance(open_data(path, kind="table"), TableData)
    with pytest.raises(PellucidError, match=r"there is no kind of data called 'lsit'. Perhaps you meant list"):
        open_data(path, kind="lsit")
    with pytest.raises(PellucidError, match=r"was read as pairs, and table is wanted. Try kind='table'"):
        require_kind(open_data(path), "table")


def test_the_line_says_what_why_and_the_flag(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("emma\nava\nemma\n\n")
    data = open_data(path)
    assert data.description == ("names.txt: a list of 3 items (short lines, no commas)")
    assert note_sentences(data.notes) == ["1 empty lines were left out", "1 of the 3 items repeat an earlier one"]


def test_pairs_are_checked_line_by_line(tmp_path):
    path = tmp_path / "pairs.txt"
    for content, says in (
        ("a\tb\nc\n", r"0 tabs stand where 1 is wanted, in 'c' in pairs.txt:2"),
        ("a\tb\nc\td\te\n", r"2 tabs stand where 1 is wanted, in 'c\\td\\te' in pairs.txt:2"),
        ("a\tb\n\tc\n", r"the source is empty in pairs.txt:2"),
        ("a\tb\nc\t\n", r"the target is empty in pairs.txt:2"),
        ("a\tb\nc\0\td\n", r"there is a NUL in pairs.txt:2"),
        ("\n \n", r"holds no pair"),
    ):
        path.write_text(content)
        with pytest.raises(PellucidError, match=says):
            open_data(path, kind="pairs")
    path.write_text("a\tb\na\tc\na\tb\n")
    assert note_sentences(open_data(path).notes) == [
        "1 of the 3 pairs repeat an earlier one",
        "1 pairs give a source another target than before",
    ]


def test_a_name_is_the_set_and_a_path_is_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names").write_text("my own\nlist of\nnames\n")
    embedded = open_data("names")
    assert len(embedded) == 30_000
    assert (
        note_sentences(embedded.notes)[0]
        == "the set that comes with pellucid, not the file; for the file write ./names"
    )
    assert open_data("./names").items == ["my own", "list of", "names"]
    assert open_data(Path("names")).items == ["my own", "list of", "names"]
    with pytest.raises(PellucidError, match=r"the data set xor is a table. It can be read as table"):
        open_data("xor", kind="text")


def test_the_reference_files_are_told_apart():
    if not SHARED.is_dir():
        pytest.skip("the reference data are not here")
    names = open_data(SHARED / "names.txt")
    assert isinstance(names, ListData)
    assert (len(names), len(set(names.items))) == (32_033, 29_494)
    assert note_sentences(names.notes) == ["2,539 of the 32,033 items repeat an earlier one"]
    play = open_data(SHARED / "shakespeare.txt")
    assert isinstance(play, TextData)
    assert len(play) == 1_115_394


def test_the_catalogue_finds_every_card_and_the_nearest_name(tmp_path, monkeypatch):
    assert list(datasets()) == sorted(datasets())
    card = cards.find("pellucid.data.sets", "DATASET", DatasetCard, "names", "data set")
    assert card.name == "names"
    with pytest.raises(PellucidError, match=r"there is no data set called 'nmes'. Perhaps you meant names"):
        cards.find("pellucid.data.sets", "DATASET", DatasetCard, "nmes", "data set")
    with pytest.raises(PellucidError, match="Choose one of copy-back, dedupe-sort, digits"):
        cards.find("pellucid.data.sets", "DATASET", DatasetCard, "qqqq", "data set")
    room = tmp_path / "two_of_a_name"
    room.mkdir()
    (room / "__init__.py").write_text("")
    for name in ("one", "two"):
        (room / f"{name}.py").write_text("from pellucid.data.sets.xor import DATASET\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AssertionError, match=r"two_of_a_name.one and two_of_a_name.two both carry a card named 'xor'"):
        cards.cards("two_of_a_name", "DATASET", DatasetCard)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("plurals.tsv", "mouse\tmice\nhouse\thouses\nfoot\tfeet\n", "pairs"),
        ("plurals.csv", "mouse,mice\nhouse,houses\nfoot,feet\n", "pairs"),
        ("genders.tsv", "Tag\tder\nNacht\tdie\nJahr\tdas\nMonat\tder\nWoche\tdie\n", "pairs"),
        ("named.tsv", "source\ttarget\nmouse\tmice\nhouse\thouses\nfoot\tfeet\n", "table"),
        ("moods.csv", "said,mood\nwell done,good\noh no,bad\nnice,good\nugh,bad\n", "table"),
        ("sizes.tsv", "mouse\t3\nhouse\t9\nfoot\t4\n", "table"),
        ("three.tsv", "a\tb\tc\nd\te\tf\ng\th\ti\n", "table"),
        ("quoted.csv", 'who,said\nAnna,"well, yes"\nOtto,no\n', "table"),
    ],
)
def test_two_columns_of_text_without_a_header_are_pairs(tmp_path, name, content, kind):
    path = tmp_path / name
    path.write_text(content)
    data = open_data(path)
    assert data.kind == kind
    if kind == "pairs":
        assert "(two columns of text, no header)" in data.description
        assert data.pairs[0][0] == content[: content.index(data.pairs[0][1])][:-1]
        assert len(data.pairs) == content.count("\n")
