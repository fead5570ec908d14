"""Bad, odd and hostile folders of images: each ends in one line with a repair, or in the very pixels.

The numbers are those of the catalogue of bad inputs that pellucid promises to handle.
"""

import hashlib
import io
import os
import struct
import zlib

import numpy
import pytest
from PIL import Image

from pellucid.cli.contract import answer
from pellucid.data import DataChanged, ImagesData, decode_images, open_data
from pellucid.data.readers import images
from pellucid.data.readers.images import MOST_PIXELS, decode_image, find_trouble
from pellucid.errors import PellucidError, TooLarge
from pellucid.figures.words.notes import note_sentences


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def encoded(picture, kind="PNG", **options):
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def spotted(seed, size=(8, 6), mode="RGB"):
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    return Image.fromarray(numpy.random.default_rng(seed).integers(0, 256, shape, dtype=numpy.uint8))


@pytest.fixture
def folder(tmp_path):
    """Two classes of three images each."""
    root = tmp_path / "shapes"
    for at, label in enumerate(("cat", "dog")):
        (root / label).mkdir(parents=True)
        for i in range(3):
            (root / label / f"{i}.png").write_bytes(encoded(spotted(10 * at + i)))
    return root


def refusal(source, **options):
    with pytest.raises(PellucidError) as caught:
        open_data(source, **options)
    line = "pellucid: " + str(caught.value)
    assert len(line) <= 240
    assert line.isprintable()
    return str(caught.value)


def header_only_png(width, height):
    """A PNG that says it is this large and holds next to nothing."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def test_a_folder_of_class_folders_is_images(folder):
    data = open_data(folder)
    assert isinstance(data, ImagesData)
    assert data.description.startswith("shapes: 6 images in 2 classes, 8×6 (a folder of class folders)")
    assert [(file.label, file.path.name, file.width, file.height) for file in data.files][:2] == [
        ("cat", "0.png", 8, 6), ("cat", "1.png", 8, 6)
    ]  # fmt: skip
    pixels = decode_images(data, size=(8, 6), mode="rgb")
    assert (pixels.pixels[3] == numpy.asarray(spotted(10))).all()
    assert pixels.labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_no_images_no_classes_one_class(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    assert "is an empty folder" in refusal(tmp_path / "empty")
    assert "holds 3 files and no class folders" in refusal(folder / "cat")
    for file in (folder / "dog").iterdir():
        file.unlink()
    (folder / "dog").rmdir()
    assert "has one class, cat" in refusal(folder)
    assert "images come in a folder" in refusal(folder / "cat" / "0.png", kind="images")
    assert "is a PNG image. For images give a folder" in refusal(folder / "cat" / "0.png")
    assert "there is no" in refusal(tmp_path / "gone", kind="images")


def test_an_empty_class_folder(folder):
    (folder / "bird").mkdir()
    assert "the class folder bird is empty in shapes. Fill it, or add skip_empty=True" in refusal(folder)
    assert open_data(folder, skip_empty=True).classes == ("cat", "dog")


def test_truncated_images_are_found_before_training(folder):
    whole = encoded(spotted(99, (64, 64)))
    for i in range(5):
        (folder / "cat" / f"cut{i}.png").write_bytes(whole[: len(whole) // 2])
    says = refusal(folder)
    assert says.startswith("5 of 11 images cannot be read: 'cat/cut0.png' (damaged:")
    assert says.count("cut") == 3
    data = open_data(folder, skip_bad=True)
    assert len(data) == 6
    assert "5 images that cannot be read were left out" in note_sentences(data.notes)


@pytest.mark.parametrize(
    ("content", "trouble"),
    [
        (b"", "empty"),
        (b"just some text", "not a PNG, JPEG, WEBP, BMP or GIF"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a PNG, JPEG, WEBP, BMP or GIF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "not a PNG, JPEG, WEBP, BMP or GIF"),
        (b"SIMPLE  =                    T", "not a PNG, JPEG, WEBP, BMP or GIF"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "not a PNG, JPEG, WEBP, BMP or GIF"),
        (encoded(Image.new("L", (4, 4)), "TIFF"), "not a PNG, JPEG, WEBP, BMP or GIF"),
    ],
)
def test_what_is_no_image_is_named(folder, content, trouble):
    (folder / "dog" / "odd.jpg").write_bytes(content)
    assert f"1 image cannot be read: 'dog/odd.jpg' ({trouble})" in refusal(folder)
    assert answer(lambda: open_data(folder), []) == 2


def test_a_bomb_is_refused_from_its_header(folder):
    bomb = header_only_png(9000, 9000)
    assert len(bomb) < 200
    (folder / "dog" / "bomb.png").write_bytes(bomb)
    assert "81 megapixels, at most 64 are read" in refusal(folder)
    assert find_trouble(header_only_png(100_000, 100_000))[3] == "more than 64 megapixels"
    assert MOST_PIXELS == 64_000_000


def gradient(width, height):
    """A picture that is darker on the left than on the right, and green."""
    levels = numpy.linspace(20, 230, width).astype(numpy.uint8)
    pixels = numpy.zeros((height, width, 3), numpy.uint8)
    pixels[..., 1] = levels
    return Image.fromarray(pixels)


def test_a_large_jpeg_is_reduced_while_it_is_decoded(folder, monkeypatch):
    content = encoded(gradient(600, 400), "JPEG", quality=95)
    whole = decode_image(content, "rgb").astype(int)
    small = decode_image(content, "rgb", (30, 20)).astype(int)
    assert numpy.abs(small - whole.reshape(20, 20, 30, 20, 3).mean((1, 3))).max() <= 2
    monkeypatch.setattr("pellucid.data.readers.images.MOST_PIXELS", 100_000)
    assert find_trouble(content) == (600, 400, False, "")
    assert numpy.abs(decode_image(content, "rgb", (300, 200)) - whole.reshape(200, 2, 300, 2, 3).mean((1, 3))).max() < 5
    blank = encoded(gradient(600, 400))  # as a PNG it takes a byte for more than eight pixels, as bombs do
    assert find_trouble(blank)[3] == "0 megapixels, at most 64 are read"
    (folder / "dog" / "photo.jpg").write_bytes(content)
    assert open_data(folder).files[-1][2:] == (600, 400)


def test_a_cut_jpeg_is_found_although_it_is_reduced():
    content = encoded(spotted(3, (640, 480)), "JPEG")
    assert find_trouble(content)[3] == ""
    assert find_trouble(content[: len(content) // 2])[3].startswith("damaged")


def test_the_first_frame_is_used_and_noted(folder):
    frames = [Image.new("L", (5, 5), level) for level in (10, 200, 90)]
    for name, kind in (("a.gif", "GIF"), ("a.png", "PNG"), ("a.webp", "WEBP")):
        options = {"lossless": True} if kind == "WEBP" else {}
        content = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        (folder / "cat" / name).write_bytes(content)
        assert abs(int(decode_image(content)[2, 2]) - 10) <= 1
    assert "3 images have several frames; the first is used" in note_sentences(open_data(folder).notes)


def test_one_conversion_for_all():
    plain = Image.new("RGB", (2, 1))
    plain.putdata([(255, 0, 0), (0, 255, 0)])
    gray = [76, 150]  # (299 R + 587 G + 114 B) / 1000
    assert decode_image(encoded(plain)).tolist() == [gray]
    assert decode_image(encoded(plain), "rgb").tolist() == [[[255, 0, 0], [0, 255, 0]]]
    deep = Image.fromarray(numpy.array([[0, 257, 65535]], dtype=numpy.uint16))
    assert decode_image(encoded(deep)).tolist() == [[0, 1, 255]]
    bits = Image.new("1", (2, 1))
    bits.putdata([0, 255])
    assert decode_image(encoded(bits)).tolist() == [[0, 255]]
    clear = Image.new("RGBA", (2, 1))
    clear.putdata([(0, 0, 0, 0), (0, 0, 0, 255)])
    assert decode_image(encoded(clear)).tolist() == [[255, 0]]  # transparency is white
    palette = plain.quantize(4)
    assert decode_image(encoded(palette)).tolist() == [gray]
    inks = Image.new("CMYK", (8, 8), (0, 0, 0, 0))
    assert (decode_image(encoded(inks, "JPEG")) == 255).all()
    turned = Image.new("L", (2, 4), 7)
    exif = Image.Exif()
    exif[0x0112] = 6
    assert decode_image(encoded(turned, "JPEG", exif=exif)).shape == (2, 4)


def test_the_conversion_does_not_change_unnoticed():
    found = {
        "gray": decode_image(encoded(spotted(1, (40, 30))), "gray", (16, 16)),
        "rgb": decode_image(encoded(spotted(2, (9, 9))), "rgb", (32, 20)),
    }
    digests = {name: hashlib.sha256(pixels.tobytes()).hexdigest()[:12] for name, pixels in found.items()}
    assert digests == {"gray": "a68c9103b651", "rgb": "d16aad348b2e"}


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGB", "RGBA", "P with a transparent colour"])
def test_a_large_png_is_reduced_strip_by_strip(mode, monkeypatch):
    """Whatever its rows are told by: noise makes encoders choose among all five filters."""
    noise = numpy.random.default_rng(1).integers(0, 256, (403, 301, 4)).cumsum(1).astype(numpy.uint8)
    picture = (
        Image.fromarray(noise, "RGBA").convert("RGB" if mode.startswith("P") else mode).convert(mode[:4].split()[0])
    )
    content = encoded(picture, **({"transparency": 3} if "transparent" in mode else {}))
    wanted = decode_image(content, "rgb").astype(int)[:400, :300].reshape(100, 4, 75, 4, 3).mean((1, 3))
    monkeypatch.setattr("pellucid.data.readers.images.MOST_PIXELS", 10_000)
    monkeypatch.setattr("pellucid.data.readers.png_strips.STRIP_BYTES", 20_000)
    assert find_trouble(content) == (301, 403, False, "")
    found = images._read_reduced(content, (301, 403), (75, 100))
    assert found.size == (76, 101)
    assert numpy.abs(numpy.asarray(found)[:100, :75] - wanted).max() <= 1
    assert decode_image(content, "gray", (10, 10)).shape == (10, 10)
    assert "damaged" in find_trouble(content[: len(content) // 2])[3]
    with pytest.raises(TooLarge):
        decode_image(content, "gray")


def test_a_large_png_that_cannot_be_cut_is_refused(monkeypatch):
    monkeypatch.setattr("pellucid.data.readers.images.MOST_PIXELS", 10_000)
    noise = numpy.random.default_rng(1).integers(0, 1 << 16, (200, 200)).astype(numpy.uint16)
    assert "megapixels, at most 64 are read" in find_trouble(encoded(Image.fromarray(noise)))[3]  # of 16 bits
    assert "megapixels, at most 64 are read" in find_trouble(encoded(Image.new("L", (200, 200))))[3]  # blank


@pytest.mark.parametrize("size", [(1, 1), (1, 100_000), (100_000, 1)])
def test_extreme_shapes_work(size):
    content = encoded(Image.new("L", size, 9))
    assert find_trouble(content)[:2] == size
    small = decode_image(content, "gray", (16, 16))
    assert small.shape == (16, 16)
    assert (small == 9).any()


def test_the_same_image_twice(folder):
    copy = (folder / "cat" / "0.png").read_bytes()
    (folder / "dog" / "copy.png").write_bytes(copy)
    (folder / "cat" / "again.png").write_bytes(copy)
    notes = note_sentences(open_data(folder).notes)
    assert "2 images are byte for byte the same as an earlier one" in notes
    assert "1 images stand in more than one class" in notes


def test_names_of_any_bytes(folder):
    content = [encoded(spotted(50 + i)) for i in range(6)]
    names = [b"new\nline.png", "émoji🙂.png".encode(), b"-rf", b"A" * 255, b"latin\xe9.png", b"CASE.png"]
    for name, image in zip(names, content, strict=True):
        with open(os.path.join(os.fsencode(folder / "cat"), name), "wb") as file:
            file.write(image)
    (folder / "cat" / "case.png").write_bytes(encoded(spotted(77)))
    data = open_data(folder)
    found = [os.fsencode(file.path.name) for file in data.files if file.label == "cat"]
    assert found == sorted(found)
    assert set(names) <= set(found)
    with open(os.path.join(os.fsencode(folder / "cat"), b"bad\xff\x1b[2J.png"), "wb") as file:
        file.write(b"x")
    assert "bad" in refusal(folder)


def test_links_are_not_followed_and_the_hidden_left_out(folder, tmp_path):
    (folder / "loop").symlink_to(folder)
    outside = tmp_path / "outside.png"
    outside.write_bytes(encoded(spotted(5)))
    (folder / "cat" / "link.png").symlink_to(outside)
    for name in (".DS_Store", "Thumbs.db"):
        (folder / "cat" / name).write_bytes(b"x")
        (folder / name).write_bytes(b"x")
    (folder / "@eaDir").mkdir()
    (folder / "readme.md").write_text("x")
    data = open_data(folder)
    assert (len(data), data.classes) == (6, ("cat", "dog"))
    assert "5 hidden files and folders were left out" in note_sentences(data.notes)
    assert "2 links were not followed" in note_sentences(data.notes)
    assert any(note.startswith("1 files outside class folders") for note in note_sentences(data.notes))


def test_many_images_are_told_and_remembered(tmp_path, cache, monkeypatch):
    root = tmp_path / "many"
    for label in ("a", "b"):
        (root / label).mkdir(parents=True)
        for i in range(300):
            (root / label / f"{i}.png").write_bytes(encoded(Image.new("L", (2, 2), i % 256)))
    before = sorted(path for path in tmp_path.rglob("*"))
    told = []
    first = open_data(root, progress=told.append)
    assert told == ["looking at image 0 of 600", "looking at image 500 of 600"]
    assert sorted(path for path in tmp_path.rglob("*")) == before  # nothing is written among the user's files
    kept = list((cache / "pellucid").iterdir())
    assert len(kept) == 1
    assert open_data(root).files == first.files
    # Another size or time is looked at again; what is in the memory alone is never believed over the file.
    (root / "a" / "7.png").write_bytes(b"broken")
    assert "'a/7.png'" in refusal(root)
    kept[0].write_text("{ damaged")
    (root / "a" / "7.png").write_bytes(encoded(Image.new("L", (2, 2), 7)))
    assert len(open_data(root)) == 600
    kept[0].unlink()
    monkeypatch.setenv("PELLUCID_CACHE", "off")
    open_data(root)
    assert list((cache / "pellucid").iterdir()) == []


def test_an_image_that_vanishes_is_named(folder):
    data = open_data(folder)
    (folder / "cat" / "1.png").unlink()
    with pytest.raises(DataChanged, match=r"the image '1.png' was there and is gone") as caught:
        decode_images(data, size=(8, 8))
    assert caught.value.exit_code == 3
