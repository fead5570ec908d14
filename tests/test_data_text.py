"""Bad, odd and hostile texts: each ends in one line with a repair, or in the very text.

The numbers are those of the catalogue of bad inputs that pellucid promises to handle.
"""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.cli.contract import answer
from pellucid.data import Bytes, Characters, DataChanged, ListData, TextData, open_data, vocabularies
from pellucid.data.prepare import encode_text
from pellucid.data.readers import sources
from pellucid.errors import PellucidError
from pellucid.figures.words.notes import note_sentences

ROOT = Path(__file__).parent.parent


@pytest.fixture
def write(tmp_path):
    def written(content, name="some.txt"):
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


def test_a_missing_path_brings_the_nearest_name(tmp_path, write):
    write("emma\nolivia\n", "names.txt")
    assert refusal(tmp_path / "nmaes.txt").endswith("names.txt'.")
    assert "there is no folder" in refusal(tmp_path / "nowhere" / "names.txt")
    assert refusal("nmes") == "there is no file 'nmes'. Perhaps you meant the data set names."
    assert "dedupe-sort" in refusal("qqqq")


def test_the_refusal_loads_nothing_heavy(tmp_path):
    code = (
        "import sys\nfrom pellucid.data import open_data\nfrom pellucid.errors import PellucidError\n"
        f"try: open_data({str(tmp_path / 'gone.txt')!r})\nexcept PellucidError as error: print(error)\n"
        "print([name for name in ('torch', 'numpy', 'polars', 'PIL', 'sklearn', 'tokenizers') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert "there is no file" in run.stdout
    assert run.stdout.splitlines()[-1] == "[]"


def test_it_ends_with_2_and_one_line(tmp_path, capsys):
    assert answer(lambda: open_data(tmp_path / "gone.txt"), []) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "a pipe, not a regular file" in refusal(tmp_path / "pipe")
    assert "a device, not a regular file" in refusal("/dev/zero")
    assert "a folder, not a regular file" in refusal(tmp_path, kind="text")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(".", os.O_RDONLY)
        try:
            os.chdir(tmp_path)  # the path of a socket may have 107 bytes
            listener.bind("door")
        finally:
            os.fchdir(here)
            os.close(here)
    assert "a socket, not a regular file" in refusal(tmp_path / "door")
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be read" in refusal(tmp_path / "loop")


@pytest.mark.parametrize("kind", ["", "list", "text", "table", "pairs"])
def test_an_empty_file(write, kind):
    assert "is empty" in refusal(write(""), kind=kind)


@pytest.mark.parametrize("content", ["a", "aaaa", "é" * 70000])
def test_one_distinct_symbol(write, content):
    assert "only one distinct symbol" in refusal(write(content), kind="text")


def test_a_byte_order_mark_is_no_character(write):
    data = open_data(write("\ufeffTo be, or not to be, that is the question."))
    assert data.read().startswith("To be")
    assert note_sentences(data.notes) == ["a byte order mark at the start was left out"]
    names = open_data(write("\ufeffemma\nolivia\n"))
    assert names.items == ["emma", "olivia"]


def test_line_ends_are_kept_counted_and_made_unix_on_request(write):
    content = "one long line of words\r\nanother long line\rof many words\u2028and one more line\nto be sure\n"
    path = write(content)
    kept = open_data(path, kind="text")
    assert kept.read() == content
    assert note_sentences(kept.notes)[0].startswith(
        "line ends kept as they are: 1 CRLF, 1 lone CR, 1 U+0085, U+2028 or U+2029"
    )
    unix = open_data(path, kind="text", newlines="unix")
    assert unix.read() == content.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n")
    assert note_sentences(unix.notes)[0].startswith("made LF: 1 CRLF, 1 lone CR")
    assert kept.fingerprint == unix.fingerprint
    assert open_data(write("emma\r\nava\r\n")).items == ["emma", "ava"]
    assert open_data(write("emma\rava\r")).items == ["emma", "ava"]


def test_a_line_end_on_the_border_of_two_pieces(write):
    from pellucid.data.readers.sources import PIECE

    content = "x" * (PIECE - 1) + "\r\n" + "é" * PIECE
    data = open_data(write(content), kind="text", newlines="unix")
    assert data.read() == content.replace("\r\n", "\n")
    assert "1 CRLF" in note_sentences(data.notes)[0]


def test_nul_is_for_bytes_only(write):
    data = open_data(write("some words\0and more words"))
    assert "a NUL at character 11" in note_sentences(data.notes)[0]
    with pytest.raises(PellucidError, match=r"there is a NUL in some.txt at character 11. Try tokens='bytes'"):
        Characters.of(data, has_boundary=False)
    assert encode_text(data, Bytes(has_boundary=False)).tokens[10] == 0
    assert "there is a NUL" in refusal(write("emma\0\nava\n"), kind="list")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("emma smith".encode("utf-16"), "not UTF-8 at byte 0. It looks like UTF-16; try encoding='utf-16'"),
        ("emma smith and more".encode("utf-16-le"), "looks like UTF-16-LE. Try encoding='utf-16-le'"),
        ("emma smith and more".encode("utf-16-be"), "looks like UTF-16-BE. Try encoding='utf-16-be'"),
        ("un café au lait".encode("latin-1"), "at byte 6. It looks like LATIN-1; try encoding='latin-1'"),
        ("“quoted” words here".encode("cp1252"), "at byte 0. It looks like CP1252; try encoding='cp1252'"),
        (b"words " * 300_000 + b"\xff\xfe", "not UTF-8 at byte 1,800,000"),
        (bytes(range(256)) * 4, "It is not a text, or is damaged there"),
        (b"half a character \xe2\x82", "not UTF-8 at byte 17"),
    ],
)
def test_what_is_not_utf8_is_named_with_its_byte_and_a_guess(write, content, says):
    assert says in refusal(write(content))


def test_the_guess_works(write):
    assert (
        open_data(write("un café au lait bien chaud".encode("latin-1")), encoding="latin-1")
        .read()
        .startswith("un café")
    )
    assert open_data(write("emma\nolivia\n".encode("utf-16")), encoding="utf-16").items == ["emma", "olivia"]
    assert "there is no encoding called 'utf-9'. Perhaps you meant utf-" in refusal(write("a b c d"), encoding="utf-9")
    assert "no encoding called 'base64'" in refusal(write("a b c d"), encoding="base64")


def test_odd_characters_come_back_exactly(write):
    content = "one\uffffword and \U0010ffff\ufdd0 then caf\u00e9 and cafe\u0301, \u200b\u202e done"
    data = open_data(write(content), kind="text")
    assert data.read().encode() == content.encode()
    vocabulary = Characters.of(data, has_boundary=False)
    assert vocabulary.decode(encode_text(data, vocabulary).tokens.tolist()) == content
    assert "not UTF-8" in refusal(write(b"lone \xed\xa0\x80 surrogate"))
    assert Characters.of(["\ud800x"]).encode("x\ud800") == [1, 2]
    with pytest.raises(PellucidError) as caught:
        Characters.of(["x"]).encode("\ud800")
    assert str(caught.value).isprintable()


def test_one_line_or_many_is_the_same(write):
    # trust/big_text.py does this with a gigabyte and measures the memory.
    words = "the quick brown fox jumps over it " * 40_000
    long = open_data(write(words, "long.txt"))
    short = open_data(write(words.replace(" ", "\n"), "short.txt"), kind="text")
    assert isinstance(long, TextData)
    vocabulary = Characters.of(long, has_boundary=False)
    assert len(encode_text(long, vocabulary)) == len(short) == len(words)
    assert long.read() == short.read().replace("\n", " ")


def test_fifty_megabytes_stay_flat():
    run = subprocess.run(
        [sys.executable, "-m", "trust.big_text", "--megabytes", "50", "--limit", "150"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_more_than_memory_is_refused_with_both_numbers(write, monkeypatch):
    monkeypatch.setattr(sources, "physical_memory", lambda: 1000)
    says = refusal(write("emma\nolivia\nava\n" * 20))
    assert "needs about" in says
    assert "this machine has" in says
    assert isinstance(open_data(write("some words " * 200)), TextData)  # text is read in pieces and always fits


def test_a_file_that_changes_is_noticed(write):
    path = write("some words and more " * 100_000)
    data = open_data(path)
    pieces = data.characters()
    next(pieces)
    path.write_text("cut short")
    with pytest.raises(DataChanged, match="changed while it was being read") as caught:
        list(pieces)
    assert caught.value.exit_code == 3


def test_a_file_that_is_deleted_is_still_read(write):
    path = write("some words and more " * 100_000)
    data = open_data(path)
    path.unlink()
    assert len(data.read()) == 2_000_000
    assert "there is no" in refusal(path)


def test_other_data_have_another_fingerprint(write):
    first = open_data(write("emma\nava\n")).fingerprint
    assert open_data(write("emma\nava\n", "same.txt")).fingerprint == first
    assert open_data(write("emma\nAva\n")).fingerprint != first
    assert len(first) == 64


def test_too_many_symbols(monkeypatch):
    text = "".join(chr(i) for i in range(0x10000, 0x10000 + 150_000))
    with pytest.raises(PellucidError, match=r"150,000 distinct symbols.*Try tokens='bytes'"):
        Characters.of(text)
    assert vocabularies.MOST_SYMBOLS == 100_000


def test_only_white_space(write):
    data = open_data(write("  \n \n\t\n"))
    assert note_sentences(data.notes) == ["there is nothing but white space in it"]
    assert "only empty lines" in refusal(write("  \n \n"), kind="list")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x1f\x8b\x08\x00rest", "is a gzip file. Unpack it first: gunzip"),
        (b"PK\x03\x04" + b"\0" * 30 + b"word/document.xml", "is a Word document. Save it as plain text"),
        (b"PK\x03\x04" + b"\0" * 30 + b"xl/workbook.xml", "is an Excel workbook. Save the sheet as CSV"),
        (b"PK\x03\x04" + b"\0" * 30 + b"a.txt", "is a zip archive. Unpack it first"),
        (b"%PDF-1.7 ...", "is a PDF file"),
        (b"BZh91AY&SY\x00\x01", "is a bzip2 file"),
        (b"\xfd7zXZ\x00", "is an xz file"),
        (b"\x89PNG\r\n\x1a\n", "is a PNG image. For images give a folder"),
        (b"\xff\xd8\xff\xe0", "is a JPEG image"),
        (b"SQLite format 3\x00", "is an SQLite database"),
        (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}", "is a Python pickle, which can run code"),
        (b"\x93NUMPY\x01\x00", "is a NumPy array"),
        (b"\0" * 257 + b"ustar\x0000", "is a tar archive"),
    ],
)
def test_other_formats_are_named(write, content, says):
    assert says in refusal(write(content, "data.txt"))
    assert says in refusal(write(content, "data.csv"))


def test_words_that_begin_like_a_format_are_words(write):
    assert open_data(write("BZh is a word\nORC is another word here\n"), kind="text").read().startswith("BZh")
    assert open_data(write("ID3 tags are text\nBM is one of many more words\n"), kind="text").read().startswith("ID3")


@pytest.mark.skipif(not shutil.which("setpriv") or os.geteuid() != 0, reason="needs root and setpriv to become nobody")
def test_permission_denied(write, tmp_path):
    path = write("emma\nava\n")
    path.chmod(0o000)
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\nfrom pellucid.data import open_data\n"
        "from pellucid.cli.contract import answer\nsys.exit(answer(lambda: open_data(sys.argv[1]), []))"
    )
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path("/tmp"):
            break
        folder.chmod(0o755)
    readable = [one for one in sys.path if one and os.access(one, os.R_OK)]
    run = subprocess.run(
        [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            sys.executable,
            "-c",
            code,
            str(path),
            *readable,
        ],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if "Permission denied" in run.stderr and "some.txt" not in run.stderr:
        pytest.skip("nobody may not read the installed Python")
    assert run.returncode == 2, run.stderr
    assert run.stderr == "pellucid: some.txt may not be read by you. Ask its owner, or chmod +r it.\n"


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1/x.csv",
        "https://a.b/c",
        "ftp://x/y",
        "s3://b/k",
        "file:///etc/passwd",
        "\\\\host\\share",
        "data:,a",
    ],
)
def test_addresses_are_never_fetched(address):
    assert "is an address, not a file" in refusal(address)


@pytest.mark.parametrize("name", ["a\nb.txt", "tab\there.txt", "\x1b]0;x\x07.txt", "-rf", "émoji 🙂.txt", "x" * 200])
def test_names_that_could_move_the_cursor_are_printed_as_codes(tmp_path, name):
    path = tmp_path / name
    path.write_text("emma\nolivia\nava\n")
    data = open_data(path)
    assert isinstance(data, ListData)
    assert data.description.isprintable()
    path.write_bytes(b"\xff\xfe\xfd")
    assert refusal(path)


def test_a_path_with_a_nul_or_of_nothing():
    assert "cannot be a path" in refusal("a\0b.txt") or "there is no" in refusal("a\0b.txt")
    assert "the path is empty" in refusal("")


def test_standard_input_is_a_dash(pellucid):
    code = "from pellucid.data import open_data; d = open_data('-'); print(d.description, d.items)"
    run = subprocess.run(
        [sys.executable, "-c", code], input="emma\nava\nolivia\n", capture_output=True, encoding="utf-8", check=True
    )
    assert run.stdout.startswith("standard input: a list of 3 items")
