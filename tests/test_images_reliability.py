"""Folders of images, bad and odd, through `pellucid train` and `pellucid predict` themselves.

The numbers are those of the catalogue of bad inputs that pellucid promises to handle; tests/test_data_images.py has the
same rows where the data are opened. Whatever is wrong is said in one line, before a run's folder is made.
"""

import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy
import pytest
import torch
from PIL import Image

from pellucid.cli import main
from pellucid.data import open_data
from pellucid.runs.folder import checkpoint_at, checkpoint_steps

QUICK = ["--model", "logistic", "--steps", "2", "--threads", "1"]


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def pellucid_here(capsys, tmp_path, tmp_path_factory, monkeypatch) -> Callable[..., Said]:
    """Runs the command in this process, which has torch already, in an empty folder and with an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    threads = torch.get_num_threads()

    def run(*words: str) -> Said:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        said = capsys.readouterr()
        return Said(int(ended.value.code or 0), said.out, said.err)

    yield run
    torch.set_num_threads(threads)


def encoded(picture, kind="PNG", **options) -> bytes:
    file = BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def spotted(seed, size=(9, 9), mode="L"):
    shape = (size[1], size[0]) + ((3,) if mode == "RGB" else ())
    return Image.fromarray(numpy.random.default_rng(seed).integers(0, 256, shape, dtype=numpy.uint8))


def header_only_png(width, height) -> bytes:
    """A PNG that says it is this large and holds next to nothing."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def write_shapes(root: Path, n: int = 8) -> Path:
    """Two classes of n images each: cats are dark, dogs are light."""
    for at, label in enumerate(("cat", "dog")):
        (root / label).mkdir(parents=True)
        for i in range(n):
            picture = spotted(100 * at + i).point(lambda level, at=at: level // 2 + 127 * at)
            (root / label / f"{i}.png").write_bytes(encoded(picture))
    return root


@pytest.fixture
def shapes(tmp_path) -> Path:
    return write_shapes(tmp_path / "shapes")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with the shapes and the finished run x."""
    folder = tmp_path_factory.mktemp("trained")
    write_shapes(folder / "shapes", 20)
    here = Path.cwd()
    threads = torch.get_num_threads()
    os.chdir(folder)
    try:
        with pytest.raises(SystemExit) as ended:
            main(["train", "shapes", "--model", "logistic", "--steps", "20", "--threads", "1", "--name", "x"])
    finally:
        os.chdir(here)
        torch.set_num_threads(threads)
    assert not ended.value.code
    return folder


def refused(said: Said, *words: str, code: int = 2) -> None:
    """One line with these words, nothing on stdout, and that code."""
    assert said.code == code, said
    assert said.out == ""
    line = said.err.rstrip("\n")
    assert "\n" not in line, said.err
    assert line.startswith("pellucid: ")
    assert len(line) <= 240
    assert line.isprintable()
    assert all(word in line for word in words), line


def answers(said: Said) -> dict[str, str]:
    """What `predict --json` answered, by the last part of each path."""
    assert said.code == 0, said
    found = json.loads(said.out)
    for one in found["predictions"]:
        assert 0.5 <= one["probability"] <= 1  # of the likelier of two classes
        assert sum(share for _, share in one["ranked"]) == pytest.approx(1)
    return {Path(one["what"]).name: one["answer"] for one in found["predictions"]}


# What no network can be trained on. Each makes the folder bad in its own way.


def emptied(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()


def without_folders(root: Path) -> None:
    for file in (root / "cat").iterdir():
        file.rename(root / file.name)
    for label in ("cat", "dog"):
        shutil.rmtree(root / label)


def of_one_class(root: Path) -> None:
    shutil.rmtree(root / "dog")


def without_images(root: Path) -> None:
    for file in [*root.rglob("*.png")]:
        file.unlink()


def with_an_empty_class(root: Path) -> None:
    (root / "bird").mkdir()


def with_cut_images(root: Path) -> None:
    whole = encoded(spotted(1, (64, 64)))
    for i in range(5):
        (root / "cat" / f"cut{i}.png").write_bytes(whole[: len(whole) // 2])


def odd(content: bytes) -> Callable[[Path], None]:
    """One file of class dog has this content."""
    return lambda root: (root / "dog" / "odd.jpg").write_bytes(content) and None


BAD = {
    "51 an empty folder": (emptied, ["is an empty folder"]),
    "51 no class folders": (without_folders, ["8 files and no class folders"]),
    "51 one class": (of_one_class, ["has one class, cat"]),
    "51 no images": (without_images, ["holds no image"]),
    "52 an empty class": (with_an_empty_class, ["the class folder bird is empty", "--skip-empty"]),
    "53 cut images": (with_cut_images, ["5 of 21 images cannot be read", "cat/cut0.png", "--skip-bad"]),
    "54 no bytes": (odd(b""), ["'dog/odd.jpg' (empty)"]),
    "54 a text": (odd(b"just some text"), ["'dog/odd.jpg' (not a PNG, JPEG, WEBP, BMP or GIF)"]),
    "54 an SVG": (odd(b"<svg xmlns='http://www.w3.org/2000/svg'/>"), ["'dog/odd.jpg' (not a PNG"]),
    "54 a HEIC": (odd(b"\0\0\0\x18ftypheic\0\0\0\0"), ["'dog/odd.jpg' (not a PNG"]),
    "54 a TIFF of pages": (odd(encoded(Image.new("L", (4, 4)), "TIFF")), ["'dog/odd.jpg' (not a PNG"]),
    "55 a bomb": (odd(header_only_png(9000, 9000)), ["81 megapixels, at most 64 are read"]),
    "55 a greater bomb": (odd(header_only_png(100_000, 100_000)), ["more than 64 megapixels"]),
}


@pytest.mark.parametrize("case", BAD)
def test_are_refused_before_a_run_is_made(case, pellucid_here, shapes, tmp_path):
    spoil, words = BAD[case]
    spoil(shapes)
    refused(pellucid_here("train", "shapes", *QUICK, "--name", "x"), *words)
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("case", [name for name in BAD if name.startswith(("53", "54", "55"))])
def test_no_class_is_told_of_what_is_no_image(case, pellucid_here, trained, shapes, monkeypatch):
    spoil, words = BAD[case]
    spoil(shapes)
    (bad,) = sorted(shapes.rglob("cut0.png")) or sorted(shapes.rglob("odd.jpg"))
    reason = words[-1].removeprefix("'dog/odd.jpg' (").removesuffix(")") if "odd" in bad.name else "damaged"
    monkeypatch.chdir(trained)
    refused(pellucid_here("predict", "x", str(bad)), bad.name, "cannot be read", reason)
    # One good file before it changes nothing: all are read before the first is answered.
    refused(pellucid_here("predict", "x", "shapes/cat/0.png", str(bad)), bad.name)


def test_may_be_left_out_and_are_counted(pellucid_here, shapes):
    with_an_empty_class(shapes)
    with_cut_images(shapes)
    said = pellucid_here("train", "shapes", *QUICK, "--name", "x", "--skip-bad", "--skip-empty")
    assert said.code == 0, said
    assert "5 images that cannot be read were left out" in said.out
    assert "one of 2 classes (cat, dog)" in said.out


# What is odd and works.


def odd_pictures() -> dict[str, bytes]:
    """A dark image in every way that files have."""
    dark = spotted(7, (16, 16)).point(lambda level: level // 2)
    frames = [dark, *(Image.new("L", (16, 16), level) for level in (255, 128))]
    exif = Image.Exif()
    exif[0x0112] = 6
    deep = Image.fromarray(numpy.asarray(dark).astype(numpy.uint16) * 257)
    return {
        "frames.gif": encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        "frames.png": encoded(frames[0], "PNG", save_all=True, append_images=frames[1:]),
        "inks.jpg": encoded(dark.convert("CMYK"), "JPEG"),
        "deep.png": encoded(deep),
        "palette.png": encoded(dark.convert("RGB").quantize(16)),
        "palette-alpha.png": encoded(dark.convert("P"), "PNG", transparency=0),
        "alpha.png": encoded(dark.convert("RGBA")),
        "bits.png": encoded(Image.new("1", (16, 16), 0)),
        "turned.jpg": encoded(dark.resize((16, 24)), "JPEG", exif=exif),
        "lossy.webp": encoded(dark, "WEBP"),
        "plain.bmp": encoded(dark, "BMP"),
        "point.png": encoded(Image.new("L", (1, 1), 9)),
        "wrong-ending.txt": encoded(dark),
    }


def test_every_way_to_store_an_image_trains(pellucid_here, shapes):
    for name, content in odd_pictures().items():
        (shapes / "cat" / name).write_bytes(content)
    (shapes / "cat" / "thread.png").write_bytes(encoded(Image.new("L", (1, 100_000), 9)))
    said = pellucid_here("train", "shapes", *QUICK, "--name", "x")
    assert said.code == 0, said
    assert "2 images have several frames; the first is used" in said.out
    assert "the images are of 5 sizes, and are read as 32×32" in said.out
    told = answers(pellucid_here("predict", "x", "--json", *(f"shapes/cat/{name}" for name in odd_pictures())))
    assert set(told) == set(odd_pictures())


def test_the_way_an_image_is_stored_does_not_change_the_answer(pellucid_here, trained, tmp_path, monkeypatch):
    for name, content in odd_pictures().items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(trained)
    told = answers(pellucid_here("predict", "x", "--json", *(str(tmp_path / name) for name in odd_pictures())))
    # A third of the turned one's square is white, for it is no square itself; whatever it is taken for, it is read.
    assert {answer for name, answer in told.items() if name != "turned.jpg"} == {"cat"}
    assert answers(pellucid_here("predict", "x", "--json", "shapes/dog")) == {f"{i}.png": "dog" for i in range(20)}


def test_a_folder_of_single_pixels_trains(pellucid_here, tmp_path):
    for at, label in enumerate(("dark", "light")):
        (tmp_path / "points" / label).mkdir(parents=True)
        for i in range(6):
            picture = Image.new("L", (1, 1), 200 * at + i)
            (tmp_path / "points" / label / f"{i}.png").write_bytes(encoded(picture))
    said = pellucid_here("train", "points", "--model", "mlp", *QUICK[2:], "--name", "x")
    assert said.code == 0, said
    assert "the images are 1×1, and are read as 32×32" in said.out
    assert len(answers(pellucid_here("predict", "x", "--json", "points/dark"))) == 6


# Copies, names, links, many files, and files that change.


def test_copies_are_counted(pellucid_here, shapes):
    for label in ("cat", "dog"):
        for i in range(8):
            (shapes / label / f"copy{i}.png").write_bytes((shapes / "cat" / f"{i}.png").read_bytes())
    said = pellucid_here("train", "shapes", *QUICK, "--name", "x", "--json")
    assert said.code == 0, said
    report = json.loads(said.out)
    notes = report["data"]["notes"]
    assert "16 images are byte for byte the same as an earlier one" in notes
    assert "8 images stand in more than one class" in notes


def test_names_of_any_bytes_train_and_are_answered(pellucid_here, shapes):
    names = [b"new\nline.png", "émoji🙂.png".encode(), b"-rf", b"A" * 251 + b".png", b"latin\xe9.png", b"CASE.png"]
    names += [b"case.png", b"\x1b[2J.png"]
    for i, name in enumerate(names):
        with open(os.path.join(os.fsencode(shapes / "cat"), name), "wb") as file:
            file.write(encoded(spotted(50 + i)))
    os.rename(shapes / "dog", os.path.join(os.fsencode(shapes), b"d\xff\ng"))
    said = pellucid_here("train", "shapes", *QUICK, "--name", "x")
    assert said.code == 0, said
    assert "\x1b[2J" not in said.out + said.err
    said = pellucid_here("predict", "x", "shapes/cat")
    assert said.code == 0, said
    assert "\x1b[2J" not in said.out
    assert "-rf" not in said.out  # it has no ending of an image
    said = pellucid_here("predict", "x", "--json", *(os.fsdecode(b"shapes/cat/" + name) for name in names))
    assert said.code == 0, said
    assert len(json.loads(said.out)["predictions"]) == len(names)


def test_links_and_hidden_files_are_left_out(pellucid_here, shapes, tmp_path):
    (shapes / "loop").symlink_to(shapes)
    (tmp_path / "outside.png").write_bytes(encoded(spotted(5)))
    (shapes / "cat" / "link.png").symlink_to(tmp_path / "outside.png")
    for name in (".DS_Store", "Thumbs.db"):
        (shapes / "cat" / name).write_bytes(b"x")
        (shapes / name).write_bytes(b"x")
    (shapes / "@eaDir").mkdir()
    said = pellucid_here("train", "shapes", *QUICK, "--name", "x")
    assert said.code == 0, said
    assert "16 images in 2 classes" in said.out
    assert "5 hidden files and folders were left out" in said.out
    assert "2 links were not followed" in said.out


def test_what_changed_behind_the_memory_is_noticed_and_named(pellucid_here, tmp_path):
    folder = write_shapes(tmp_path / "many", 100)
    open_data(folder)  # remembers 200 images by name, size and time
    file = folder / "dog" / "77.png"
    before, content = file.stat(), file.read_bytes()
    file.write_bytes(content[:40] + bytes(len(content) - 40))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    refused(pellucid_here("train", "many", *QUICK, "--name", "x"), "'77.png' was there and is", code=3)
    assert not (tmp_path / "runs" / "x").exists()
    file.write_bytes(content)
    assert pellucid_here("train", "many", *QUICK, "--name", "x").code == 0


def test_a_run_does_not_go_on_when_an_image_is_gone(pellucid_here, trained, tmp_path):
    shutil.copytree(trained / "shapes", tmp_path / "shapes")
    shutil.copytree(trained / "runs", tmp_path / "runs")
    run = tmp_path / "runs" / "x"
    (run / "finished.json").unlink()
    shutil.rmtree(checkpoint_at(run, checkpoint_steps(run)[0]))  # the newest
    (tmp_path / "shapes" / "cat" / "3.png").unlink()
    refused(pellucid_here("train", "--resume", "x"), "'shapes' is not what x was trained on", "--data")
    shutil.copy(trained / "shapes" / "cat" / "3.png", tmp_path / "shapes" / "cat" / "3.png")
    assert pellucid_here("train", "--resume", "x").code == 0


# What is asked for.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--colour", "sepia"], ["there is no colour mode called 'sepia'", "gray, rgb"]),
        (["--image-size", "-3"], ["-3"]),
        (["--image-size", "100000"], ["is no size for images"]),
        (["--task", "regression"], ["images, which have classes"]),
        (["--model", "lstm"], ["lstm"]),
        (["--kind", "pictures"], ["pictures"]),
    ],
)
def test_options_that_images_cannot_fulfil_are_refused_in_a_line(words, said, pellucid_here, shapes, tmp_path):
    refused(pellucid_here("train", "shapes", "--steps", "2", "--threads", "1", *words), *said)
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_colour_and_size_may_be_asked_for(pellucid_here, shapes):
    said = pellucid_here("train", "shapes", *QUICK, "--name", "x", "--colour", "rgb", "--image-size", "12")
    assert said.code == 0, said
    assert "an image of 12×12 pixels, colour, 432 numbers" in said.out
    assert len(answers(pellucid_here("predict", "x", "--json", "shapes/cat"))) == 8


# What `predict` is given.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone.png"], ["there is no file"]),
        (["."], ["holds no image"]),
        ([], ["FILE is missing"]),
        (["pipe.png"], ["not a regular file"]),
        (["table.csv"], ["cannot be read"]),
        (["shapes/cat/0.png", "--text", "abc"], ["--text is for pairs"]),
        (["shapes/cat/0.png", "--beam", "3"], ["--beam is for pairs"]),
        (["shapes/cat/0.png", "--out", "answers.txt"], ["does not end in .csv"]),
    ],
)
def test_predict_refuses_what_is_no_image_in_a_line(words, said, pellucid_here, trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    refused(pellucid_here("predict", "x", *words), *said)


def test_answers_go_into_a_table(pellucid_here, trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    assert pellucid_here("predict", "x", "shapes/cat", "--out", "answers.csv").code == 0
    rows = [line.split(",") for line in (tmp_path / "answers.csv").read_text().splitlines()]
    assert rows[0] == ["example", "answer", "probability"]
    assert len(rows) == 21
    assert {row[1] for row in rows[1:]} == {"cat"}
