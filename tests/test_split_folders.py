"""A folder that split wrote is opened as it was divided, and refused where it changed since."""

import json

import numpy as np
import pytest

from pellucid.api.split import split
from pellucid.data import ListData, PairsData, TableData, open_data
from pellucid.data.options import DataOptions
from pellucid.data.prepare import pair_sides, table_sides
from pellucid.data.prepare.tokens import split_sequences
from pellucid.data.splits import SIDES
from pellucid.errors import PellucidError
from pellucid.figures.words.notes import note_sentences
from pellucid.figures.words.splitting import choice_sentences
from pellucid.training.tasks import open_task


@pytest.fixture
def divided(tmp_path):
    """400 rows of a table, divided with another seed than training would."""
    draw = np.random.default_rng(0)
    lines = [
        f"{x:.3f},2024-01-{1 + i % 28:02d},{'ab'[i % 2]},{'ny'[int(x > 0)]}"
        for i, x in enumerate(draw.normal(size=400))
    ]
    path = tmp_path / "some.csv"
    path.write_text("x,day,kind,y\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_a_table_keeps_its_sides(divided, tmp_path, file_format):
    folder = tmp_path / "parts"
    report = split(divided, target="y", strategy="random", seed="7", out=folder, file_format=file_format).report.record
    data = open_data(folder)
    assert isinstance(data, TableData)
    sides = table_sides(data, "y")
    assert {side: len(getattr(sides, side)) for side in SIDES} == report.sizes
    assert sides.split is not None
    assert choice_sentences(sides.split)[0] == "divided as the folder is"
    test = open_data(folder / f"test.{file_format}")
    assert data.frame["x"][sides.places["test"]].to_list() == test.frame["x"].to_list()
    assert "day is read as its day, weekday, day of year" in note_sentences(sides.notes)
    with pytest.raises(PellucidError, match="divided before"):
        open_task(DataOptions(str(folder), target="y", strategy="hash"))
    with pytest.raises(PellucidError, match="Leave kind out"):
        open_data(folder, kind="text")


def test_lists_and_pairs_keep_their_sides(tmp_path):
    words = [f"word{i}" for i in range(300)]
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n")
    split(tmp_path / "words.txt", seed="7", out=tmp_path / "words")
    data = open_data(tmp_path / "words")
    assert isinstance(data, ListData)
    assert sorted(data.items) == sorted(words)
    assert split_sequences(data).test_items == (tmp_path / "words" / "test.txt").read_text().split()
    (tmp_path / "pairs.tsv").write_text("".join(f"{word}\t{word}s\n" for word in words))
    split(tmp_path / "pairs.tsv", seed="7", out=tmp_path / "pairs")
    pairs = open_data(tmp_path / "pairs")
    assert isinstance(pairs, PairsData)
    lines = (tmp_path / "pairs" / "dev.tsv").read_text().splitlines()
    assert ["\t".join(pair) for pair in pair_sides(pairs).texts["dev"]] == lines
    assert open_task(DataOptions(str(tmp_path / "words"))).facts.items["test"] == len(split_sequences(data).test_items)


def test_a_folder_that_changed_is_refused(divided, tmp_path):
    folder = tmp_path / "parts"
    split(divided, target="y", out=folder, file_format="csv")
    with (folder / "dev.csv").open("a") as file:
        file.write("0.5,2024-01-01,a,y\n")
    with pytest.raises(PellucidError, match=r"'dev.csv' in 'parts' is not what was written there"):
        open_data(folder)
    document = json.loads((folder / "split.json").read_text())
    document["parts"] = {f"../{name}": part for name, part in document["parts"].items()}
    for content in (json.dumps(document), "{}", "[" * 100_000, "", '{"data": {"kind": "images"}, "parts": {}}'):
        (folder / "split.json").write_text(content)
        with pytest.raises(PellucidError, match=r"split.json in 'parts' is damaged"):
            open_data(folder)
