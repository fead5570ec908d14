"""The table of all benchmarks beside their peers: ratios, who is called faster, memory, and the exponents of growth."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def table(monkeypatch):
    """The module as `make bench` finds it."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("beside_peers")


def test_parts_are_run_in_the_surroundings_that_they_are_asked_for_in():
    """Curves of growth are of one thread, and so once was everything beside them: Polars too, where two are usual."""
    ask = "import os; before = dict(os.environ); import beside_peers; assert dict(os.environ) == before"
    subprocess.run([sys.executable, "-c", ask], cwd=ROOT / "benchmarks", check=True)


def points(*seconds_and_losses):
    return [{"step": 10 * i, "seconds": s, "dev": dev} for i, (s, dev) in enumerate(seconds_and_losses, start=1)]


GROWN = {"theirs": 120_000_000, "ours": 4_500_000}


def test_a_ratio_is_of_the_turns_and_nobody_is_faster_where_they_disagree(table):
    row = table.beside("sort", "peer", [2.0, 6.0, 4.0], [1.0, 1.0, 1.0])
    assert (row.theirs, row.ours, row.spread, row.faster) == ("4 s", "1 s", "4× [2..6]", "ours")
    assert table.beside("sort", "peer", [2.0, 0.5], [1.0, 1.0]).faster == "level"
    assert table.beside("sort", "peer", [0.9, 0.5], [1.0, 1.0]).faster == "theirs"


def test_training_is_compared_at_the_loss_that_theirs_reached(table):
    theirs, ours = points((10, 2.5), (20, 2.0), (30, 2.1)), points((1, 2.2), (2, 2.0), (3, 1.9))
    step, row = table.training_rows({"names": {"theirs": theirs, "ours": ours, "grown": GROWN}})
    assert (step.theirs, step.ours, step.spread) == ("1 s", "100 ms", "10× [10..10]")
    assert (row.task, row.theirs, row.ours) == ("train on names to 2.0000 nats", "20 s", "2 s")
    assert row.holds == "120 and 4.5 MB"
    assert row.middle == 10
    assert row.faster == "ours"


def test_a_loss_that_ours_did_not_reach_counts_for_theirs(table):
    _, row = table.training_rows({"names": {"theirs": points((10, 2.0)), "ours": points((1, 2.2)), "grown": GROWN}})
    assert (row.ours, row.faster) == ("not reached", "theirs")


def test_the_exponent_is_the_power_that_was_put_in(table):
    curve = [table.growth.Point(n, 3e-6 * n**1.5, 0) for n in (10, 100, 1000, 10_000)]
    assert table.growth.exponent(curve) == pytest.approx(1.5)
    assert len(table.growth.upper_half(curve)) == 2


def test_what_a_short_run_costs_is_read_as_its_benchmark_writes_it(table):
    overhead = importlib.import_module("overhead")
    runs = [(2.0 + i, 3.0, 3.0, 9.0, 9.0, 12.0, 400.0) for i in range(3)]
    shown = dict(table.overhead_figures(overhead.figures("names --steps 200", runs)))
    assert shown["`pellucid train names --steps 200`: to the first screen"] == "3.0 s [2.0..4.0]"
    assert shown["`pellucid train names --steps 200`: peak memory"] == "400 MB"


def test_what_serving_costs_is_read_as_its_benchmark_writes_it(table):
    serve = importlib.import_module("serve")
    taken = (("ours", 1.0), ("one by one", 2.0), ("peer", 4.0))
    turns = {name: [serve.Measured(s, 9.0, [0.1], 100, 250_000_000)._asdict()] for name, s in taken}
    (row,) = table.serve_rows({"64": turns})
    assert (row.task, row.theirs, row.ours, row.middle) == ("serve 64 clients", "25 tokens/s", "100 tokens/s", 4)
    assert row.holds == "250 and 250 MB"
    assert [own.figure for own in table.serve_figures({"64": turns})] == ["2×"]


def test_the_page_names_every_row_in_which_a_peer_is_not_behind(table):
    slow = table.beside("a block", "GPT-2", [0.9, 0.8], [1.0, 1.0], (30_000_000, 20_000_000))
    fast = table.beside("counting", "nltk", [9.0, 8.0], [1.0, 1.0], (20_000_000, 30_000_000), clock="wall")
    curves = {"rows": [table.growth.Point(n, n / 1e3, n) for n in (10, 100)]}
    page = table.page([slow, fast], [table.Own("first screen", "2.0 s")], curves, {"2026-11-18"}, ["split"])
    behind, larger = page.split("## Ours alone")[0].split("**Where")[1:]
    assert "- a block, beside GPT-2: 0.85× [0.8..0.9]" in behind
    assert "nltk" not in behind
    assert "- counting, beside nltk: 20 and 30 MB" in larger
    assert "GPT-2" not in larger
    assert "| counting | nltk | wall | 8.5 s | 1 s | 8.5× [8..9] | ours | 20 and 30 MB |" in page
    assert "ended with an error: split." in page
    assert "| first screen | 2.0 s |" in page
    assert "1.00, upper half 1.00" in page


def test_memory_is_what_was_held_at_most_and_not_what_was_held_before(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    memory = importlib.import_module("memory")
    held = [b"x" * 90_000_000]
    # Linux counts pages in batches, so a few are missing.
    assert 29_000_000 < memory.grown_by(lambda: held.append(b"x" * 30_000_000)) < 60_000_000
