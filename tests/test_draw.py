"""The counting pictures: every number in them is counted again here, by loops; and the command ends as promised."""

import io
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from tests.tiny_records import TINY_RUN, tiny_record

from pellucid.api.draw import draw, drawable
from pellucid.api.drawn_records import MEASURES
from pellucid.api.results import PICTURES as SUFFIXES
from pellucid.data import Characters, ListData, open_data
from pellucid.data.prepare import encode_list
from pellucid.data.splits.assignment import split_list
from pellucid.figures.drawings.bigram_graph import draw_bigram_graph
from pellucid.figures.drawings.bigram_matrix import draw_bigram_matrix, sums_line
from pellucid.figures.picture import Picture, picture_html, picture_png
from pellucid.figures.words.notation import symbol_labels
from pellucid.lessons.bigram_smoothing import SHOWN, TRIED, smooth_counts
from pellucid.lessons.bigram_smoothing import draw as draw_smoothing
from pellucid.lessons.lesson import Lesson, all_lessons
from pellucid.models.counting.fitting import count_loss
from pellucid.models.counting.simple_models import Bigram, BigramConfig, bigram_counts, word_counts
from pellucid.records import BigramCounts
from pellucid.runs import RunResult, RunWriter

ROOT = Path(__file__).parent.parent
NAMES = ROOT.parent / "shared" / "data" / "names.txt"
WORDS = ["emma", "olivia", "ava", "isabella", "sophia", "mia", "anna", "aa", "bob", "zoë", "ann-marie", "emma"]


def counted_by_loops(items: Sequence[str]) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for item in items:
        before = "·"
        for letter in [*item, "·"]:
            counts[before, letter] = counts.get((before, letter), 0) + 1
            before = letter
    return counts


def as_pairs(counts: BigramCounts) -> dict[tuple[str, str], int]:
    return {(counts.symbols[first], counts.symbols[second]): n for first, second, n in counts.bigrams}


def listed(items: list[str], name: str = "words") -> ListData:
    return ListData(name, items, because="", fingerprint="")


def cells(picture: Picture) -> dict[tuple[str, str], int]:
    """Every cell of a matrix by what is told of it under the pointer, beside the number that is written in it."""
    found = {}
    for cell in ElementTree.fromstring(picture.svg).findall(".//*[@class='cell']"):
        pair, n = re.fullmatch(r"(.*): ([\d,]+), .* of its row", cell.findtext("{*}title")).groups()
        first, second = pair.split(" → ")
        found[first, second] = int(n.replace(",", ""))
        assert cell.findtext("{*}text") == str(found[first, second])
    return found


def labels_and_sums(picture: Picture) -> tuple[list[str], list[str]]:
    """The bold texts of a matrix: what stands beside its rows and above its columns, and the sums."""
    bold = [text for text in ElementTree.fromstring(picture.svg).findall(".//{*}text") if text.get("font-weight")][1:]
    return [text.text for text in bold if text.get("font-size") == "19"], [
        text.text for text in bold if text.get("font-size") == "13"
    ]


def test_emma_has_five_edges_between_four_vertices():
    seen = word_counts("emma")
    assert set(seen.symbols) == {"·", "e", "m", "a"}
    assert as_pairs(seen) == {("·", "e"): 1, ("e", "m"): 1, ("m", "m"): 1, ("m", "a"): 1, ("a", "·"): 1}
    picture = draw_bigram_graph(seen)
    assert picture.caption[0] == "5 edges between 4 vertices: V = {·, e, m, a}; 1 self-loop, orange."
    drawn = ElementTree.fromstring(picture.svg).findall(".//*[@class='edge']/{*}title")
    assert [title.text for title in drawn] == [
        "m → m, step 3",
        "· → e, step 1",
        "e → m, step 2",
        "m → a, step 4",
        "a → ·, step 5",
    ]


def test_the_matrix_shows_what_loops_count():
    seen = bigram_counts(listed(WORDS))
    by_loops = counted_by_loops(WORDS)
    assert as_pairs(seen) == by_loops
    assert seen.total == sum(len(word) + 1 for word in WORDS)
    chart = draw_bigram_matrix(seen)
    assert cells(chart) == by_loops
    _, sums = labels_and_sums(chart)
    wanted = []
    for label in symbol_labels(seen.symbols, seen.has_boundary):
        row = sum(n for (first, _), n in by_loops.items() if first == label)
        column = sum(n for (_, second), n in by_loops.items() if second == label)
        assert row == column
        wanted += [str(row), str(column)]
    assert sums == [*wanted, str(seen.total)]
    assert f"all {len(seen.symbols)} symbols" in chart.caption[1]


def test_the_reference_names():
    if not NAMES.exists():
        pytest.skip("the reference list of names is not beside the project")
    items = NAMES.read_text().split()
    seen = bigram_counts(open_data(NAMES))
    assert as_pairs(seen) == counted_by_loops(items)
    assert seen.total == 228_146
    assert seen.row_sums() == seen.column_sums()
    chart = draw_bigram_matrix(seen)
    assert len(labels_and_sums(chart)[0]) == 2 * 28  # 27 symbols and the sums, of rows and columns
    assert "228,146 bigrams in 32,033 items of names.txt" in chart.caption[0]
    graph = draw_bigram_graph(seen)
    strongest = sum(sorted(counted_by_loops(items).values())[-50:])
    assert f"The 50 darkest arrows hold {100 * strongest / 228_146:.2f} % of all." in graph.caption[0]
    assert graph.svg.count('class="edge ') == len(seen.bigrams)
    assert graph.svg.count('class="vertex"') == 27


def test_sums_that_differ_are_told(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("to be or not to be, that is the question of the day\n" * 40 + "x")
    seen = bigram_counts(open_data(file, kind="text"))
    assert not seen.has_boundary
    said = sums_line(seen)
    assert "not for t (row" in said
    assert "and x (row 0, column 1)." in said


def test_many_symbols_are_cut_to_the_most_frequent_and_it_is_said():
    items = [chr(0x4E00 + i) * (1 + i % 7) for i in range(90)]
    seen = bigram_counts(listed(items))
    by_loops = counted_by_loops(items)
    chart, graph = draw_bigram_matrix(seen), draw_bigram_graph(seen)
    shown = set(labels_and_sums(chart)[0]) - {"sum"}
    assert len(shown) == 40
    held = sum(n for (first, second), n in by_loops.items() if {first, second} <= shown)
    assert cells(chart) == {pair: n for pair, n in by_loops.items() if set(pair) <= shown}
    assert f"hold {100 * held / seen.total:.2f} % of" in chart.caption[-1]
    assert f"hold {100 * held / seen.total:.2f} % of" in graph.caption[-1]


def test_no_two_symbols_look_alike():
    symbols = ["·", "·", " ", "␣", "\n", "\u0301", "\u200b", "a", "sum"]
    given = symbol_labels(symbols, has_boundary=True)
    assert len(set(given)) == len(symbols)
    assert given[:4] == ["·", "U+00B7", "␣", "U+2423"]


def test_smoothing_is_what_the_models_and_loops_say():
    items = [a + b + c for a in "abcd" for b in "aeiou" for c in "nrst"] + WORDS
    seen = smooth_counts(listed(items), "a")
    split = split_list(items)
    vocabulary = Characters.of(items)
    train, dev = (encode_list(side, vocabulary) for side in (split.train, split.dev))
    in_train, in_dev = counted_by_loops(split.train), counted_by_loops(split.dev)
    assert seen.n_train == sum(in_train.values())
    assert seen.n_dev == sum(in_dev.values())
    assert seen.n_dev_unseen == sum(n for pair, n in in_dev.items() if pair not in in_train)
    assert [row.s for row in seen.rows] == list(SHOWN)
    n_after = sum(n for (first, _), n in in_train.items() if first == "a")
    assert seen.n_after == n_after
    for row in seen.rows:
        wanted = [
            (in_train.get(("a", letter), 0) + row.s) / (n_after + row.s * len(vocabulary)) for letter in seen.symbols
        ]
        assert row.probabilities == pytest.approx(wanted, rel=1e-12)
        assert sum(row.probabilities) == pytest.approx(1, rel=1e-12)
    assert [found.s for found in seen.losses] == list(TRIED)
    for found in seen.losses:
        model = Bigram.fit(train, BigramConfig(len(vocabulary), found.s))
        assert found.train == pytest.approx(count_loss(model, train).nats, rel=1e-12)
        assert found.dev == pytest.approx(count_loss(model, dev).nats, rel=1e-12)
    assert seen.losses[-1].dev == pytest.approx(math.log(len(vocabulary)), abs=1e-3)
    chart = draw_smoothing(seen)
    best = min(seen.losses, key=lambda found: found.dev)
    assert f"s = {best.s:g} has the lowest dev loss, {best.dev:.4f} nats" in chart.caption[-1]
    is_unseen = "infinite" in chart.caption[1]
    assert is_unseen == math.isinf(seen.losses[0].dev)


def test_what_comes_after_is_the_boundary_or_what_was_asked_for():
    seen = smooth_counts(listed(WORDS * 20))
    assert seen.symbols[seen.after] == "·"
    text = ROOT / "LICENSE"
    data = open_data(text, kind="text")
    assert (lambda found: found.symbols[found.after])(smooth_counts(data)) == " "
    assert (lambda found: found.symbols[found.after])(smooth_counts(data, "newline")) == "\n"


@pytest.mark.parametrize("name", drawable())
def test_every_figure_draws_its_tiny_record_in_every_form(name):
    card = drawable()[name]
    assert card.summary.endswith(".")
    if not isinstance(card, Lesson):
        assert card.needs in MEASURES
        assert isinstance(tiny_record(name), card.needs)
    assert f"| {name} |" in (ROOT / "docs" / "drawings.md").read_text()
    drawing = card.draw(tiny_record(name))
    assert isinstance(drawing, Picture)
    ElementTree.fromstring(drawing.svg)
    assert picture_png(drawing).startswith(b"\x89PNG")
    page = picture_html(drawing)
    assert "@@" not in page
    assert "default-src 'none'" in page


def test_letters_appear_where_no_font_is_installed():
    """The font that comes with us stands in: every letter of a caption covers some of the paper."""
    picture = drawable()["loss-curves"].draw(TINY_RUN)
    bare = picture._replace(svg=re.sub(r"<text[^>]*>.*?</text>", "", picture.svg))
    with_words, without = [
        Image.open(io.BytesIO(picture_png(one, has_system_fonts=False))).convert("L") for one in (picture, bare)
    ]
    changed = ImageChops.difference(with_words, without).getbbox()
    assert with_words.size == without.size
    assert changed is not None
    left, top, right, _ = changed
    assert (left, top) < (80, 80)
    assert right > with_words.width / 2


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_command_writes_each_form(pellucid, tmp_path, suffix):
    run = pellucid("draw", "bigram-graph", "--word", "emma", "--out", f"emma{suffix}")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith(f"Written: 'emma{suffix}'\n")
    assert (tmp_path / f"emma{suffix}").stat().st_size > 1000
    assert [file.name for file in tmp_path.iterdir()] == [f"emma{suffix}"]


def test_the_numbers_as_json(pellucid, tmp_path):
    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    run = pellucid("draw", "bigram-matrix", "words.txt", "--json")
    document = json.loads(run.stdout)
    symbols = document["data"]["symbols"]
    found = {(symbols[row["first"]], symbols[row["second"]]): row["n"] for row in document["data"]["bigrams"]}
    assert found == counted_by_loops(WORDS)
    (tmp_path / "long.txt").write_text("\n".join(WORDS * 20))
    document = json.loads(pellucid("draw", "smoothing", "long.txt", "--json").stdout)
    assert {found["s"] for found in document["data"]["losses"]} == set(TRIED)


def test_the_list_has_every_figure(pellucid):
    lines = pellucid("draw", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(drawable())
    rows = json.loads(pellucid("draw", "--list", "--json").stdout)
    assert [row["name"] for row in rows] == list(drawable())


REFUSED = {
    "draw": "FIGURE is missing",
    "draw bigram-matri --out x.svg": "Perhaps you meant bigram-matrix",
    "draw bigram-matrix names": "--out is missing",
    "draw bigram-matrix names --out x.pdf": "'x.pdf' does not end in .svg, .png or .html. Call it 'x.svg'",
    "draw bigram-matrix names --out nowhere/x.svg": "there is no folder 'nowhere'",
    "draw bigram-matrix nofile.txt --out x.svg": "there is no file 'nofile.txt'",
    "draw bigram-matrix penguins --out x.svg": "penguins was read as table",
    "draw bigram-graph names --word emma --out x.svg": "both are given",
    "draw bigram-graph --word= --out x.svg": "--word is empty",
    f"draw bigram-graph --word {'x' * 61} --out x.svg": "--word has 61 characters",
    "draw smoothing --word emma --out x.svg": "--word changes nothing in smoothing",
    "draw smoothing names --after Q --out x.svg": "'Q' never occurs in names",
    "draw smoothing short.txt --out x.svg": "nothing of short.txt falls to the dev side",
    "draw bigram-matrix names --seed 1 --out x.svg": "--seed changes nothing in bigram-matrix",
    "draw decay --seed=-1 --out x.svg": "the seed is -1. The nearest that can be is 0",
    "draw loss-curves nosuch --out x.svg": "there is no run called 'nosuch'",
    "draw loss-curves nosuch --seed 1 --out x.svg": "--seed changes nothing in a run that is there",
    "draw decay names --out x.svg": "decay is a demonstration and takes neither data nor a run. Leave 'names' out",
    "draw learning-rate nosuch --out x.svg": "there is no file 'nosuch'",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_is_told_in_one_line_and_nothing_is_written(pellucid, tmp_path, words):
    (tmp_path / "short.txt").write_text("emma\n")
    run = pellucid(*words.split())
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1
    assert REFUSED[words] in run.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["short.txt"]


def test_refusals_load_nothing_heavy(run_together):
    light = [words for words in REFUSED if "names --after" not in words and "short" not in words]
    # Those that read a table come last, for only they load what reads one.
    for said in run_together(words.split() for words in sorted(light, key=lambda words: "penguins" in words)):
        reads_a_table = "penguins" in said.words
        assert not said.loaded & {"torch", "resvg_py", "scipy", *(() if reads_a_table else ("numpy", "polars"))}, said


OF_RUNS = ["loss-curves", "update-ratios", "gradient-norms", "layer-histograms", "unit-maps", "ladder"]


@pytest.fixture
def run(tmp_path) -> str:
    """The folder of a finished run of four steps."""
    seen = TINY_RUN
    record = {
        name: getattr(seen, name) for name in ("seed", "threads", "versions", "data", "network", "plan", "command")
    }
    logs = {"metrics": seen.steps, "evaluations": seen.evaluations, "health": seen.health, "findings": seen.findings}
    with RunWriter.create(tmp_path / "runs" / seen.name, record, n_bytes=1000) as writer:
        for log, lines in {**logs, "samples": seen.sampled, "timings": seen.timings}.items():
            for line in lines:
                writer.append(log, line)
        writer.finish(RunResult(seen.start, seen.ladder, seen.ending, seen.verdict, tuple(seen.samples)))
    return seen.name


@pytest.mark.parametrize("figure", OF_RUNS)
def test_a_figure_of_a_run_is_that_of_its_record(pellucid, tmp_path, run, figure):
    said = pellucid("draw", figure, run, "--out", "x.svg")
    assert (said.returncode, said.stderr) == (0, "")
    card = drawable()[figure]
    drawing = card.draw(TINY_RUN.ladder if figure == "ladder" else TINY_RUN)
    assert (tmp_path / "x.svg").read_text() == drawing.svg
    assert said.stdout.splitlines()[0] == "tiny: mlp on words.txt: a list of 4 items"
    by_path = pellucid("draw", figure, f"runs/{run}", "--json")
    assert json.loads(by_path.stdout)["caption"] == list(drawing.caption)


def test_what_compares_trainings_names_what_a_run_has_instead(pellucid, tmp_path, run):
    instead_of = {name: lesson.figure_of_run for name, lesson in all_lessons().items() if lesson.figure_of_run}
    assert set(instead_of) == {"decay", "hockey-stick", "saturation", "dead-unit", "gains", "vit-resolution"}
    for figure, instead in instead_of.items():
        said = pellucid("draw", figure, run, "--out", "x.svg")
        assert said.returncode == 2
        assert said.stderr.endswith(f"is a run. Draw {instead} of it.\n")
        assert instead in drawable()
    assert not (tmp_path / "x.svg").exists()


def test_a_run_is_drawn_without_torch(tmp_path, run):
    code = (
        "import sys; from pellucid.cli import main\n"
        f"try: main(['draw', 'loss-curves', {run!r}, '--out', 'x.svg'])\n"
        "except SystemExit: print([name for name in ('torch', 'numpy', 'polars', 'resvg_py') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, cwd=tmp_path)
    assert said.stdout.splitlines()[-1] == "[]"


def measured(figure: str, seed: int, source: str | None = None) -> object:
    record = draw(figure, source, seed=seed).record
    assert isinstance(record, type(tiny_record(figure)))
    return record


@pytest.mark.parametrize("figure", ["saturation", "dead-unit", "gains"])
def test_a_demonstration_follows_its_seed(figure):
    first, again, other = (draw(figure, seed=seed).drawing.svg for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_rates_of_a_file_are_searched(tmp_path):
    (tmp_path / "words.txt").write_text(
        "\n".join(a + b + c for a in "bcdfgm" for b in "aeiou" for c in ("na", "ra", "li"))
    )
    seen = measured("learning-rate", 1, str(tmp_path / "words.txt"))
    assert seen.seeds == (1, 2, 3)
    assert len(seen.sweeps[0]) > 20
    ElementTree.fromstring(drawable()["learning-rate"].draw(seen).svg)


def test_without_a_run_a_small_one_is_trained_and_leaves_nothing(pellucid, tmp_path):
    said = pellucid("draw", "loss-curves", "--seed", "3", "--out", "x.svg")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("no run was named: an mlp of names, 200 steps, seed 3\n")
    assert [file.name for file in tmp_path.iterdir()] == ["x.svg"]


def test_figures_know_no_engine():
    """The pictures of yesterday's numbers need neither NumPy nor torch, and nothing heavy is loaded to list them."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pellucid.api.draw import drawable\n"
        "from tests.tiny_records import tiny_record\n"
        "for name, card in drawable().items(): card.draw(tiny_record(name))\n"
        "print([name for name in ('torch', 'numpy', 'polars', 'resvg_py') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert run.stdout.strip() == "[]"


def test_drawing_loads_no_torch(tmp_path):
    code = (
        "import sys; from pellucid.cli import main\n"
        "try: main(['draw', 'smoothing', 'names', '--out', 'x.svg'])\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, cwd=tmp_path)
    assert run.stdout.splitlines()[-1] == "False"


def test_the_same_numbers_give_the_same_picture():
    seen = bigram_counts(listed(WORDS))
    for draw_it in (draw_bigram_matrix, draw_bigram_graph):
        assert draw_it(seen).svg == draw_it(seen).svg


def test_every_step_of_a_long_word_is_drawn_once():
    for word in ("mississippi", "abracadabra", "honorificabilitudinitatibus", "aaaaaaaaaaaa", "ab" * 30):
        picture = draw_bigram_graph(word_counts(word))
        titles = re.findall(r"<title>[^<]*, (?:step (\d+)|(\d+) times)</title>", picture.svg)
        assert sum(int(times) if times else 1 for _, times in titles) == len(word) + 1


NEW_LESSON = """
from dataclasses import dataclass
from typing import NamedTuple

from pellucid.figures.picture import Picture, picture
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option


class Square(NamedTuple):
    side: int


@dataclass(frozen=True)
class SquareKnobs:
    seed: int = seed_knob()
    bottom: tuple[float, ...] = option((1.0, 2.0), "Numbers below it.", maximum=9)

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: SquareKnobs) -> Square:
    return Square(2 * knobs.seed)


def draw(record: Square) -> Picture:
    marks = [f'<rect width="{record.side}" height="{record.side}"/>']
    return picture("A square", [f"Its side is {record.side}."], marks, 10, 10)


LESSON = Lesson(name="square", summary="A square.", measure=measure, draw=draw, knobs=SquareKnobs)
"""


def test_a_new_file_is_a_new_lesson_everywhere(tmp_path, monkeypatch, capsys):
    """One file in the room: it is listed, documented, takes the options of its `measure`, and is drawn."""
    import importlib.util

    import pellucid.lessons
    from pellucid.cli import main

    (tmp_path / "square.py").write_text(NEW_LESSON)
    monkeypatch.setattr(pellucid.lessons, "__path__", [*pellucid.lessons.__path__, str(tmp_path)])
    assert drawable()["square"].options == ("seed", "bottom")
    for words in (["draw", "--list"], ["draw", "square", "--seed", "4", "--json"], ["draw", "square", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "square" in [line.split()[0] for line in said.splitlines() if line]
    assert "Its side is 8." in said
    assert "--bottom NUMBERS  Numbers below it.  [default: 1,2]" in said
    specification = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    build = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(build)
    assert "| square | A square. | lesson | seed, bottom |" in build.drawings_page()
    monkeypatch.delitem(sys.modules, "pellucid.lessons.square")
