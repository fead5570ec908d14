"""Two hundred damaged files here; `python -m trust.damaged` makes a thousand."""

from trust.damaged import run


def test_damaged_files_are_refused_in_one_line_or_read_as_they_are(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "")  # run() sets its own, and this puts the old one back
    tally, wrong = run(200, seed=7)
    assert wrong == []
    assert sum(tally.values()) == 200
    assert sum(n for what, n in tally.items() if what.startswith("refused")) > 100
    assert sum(n for what, n in tally.items() if what.startswith("read")) > 10
