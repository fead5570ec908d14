"""Groups and dates are found, row numbers are no time, and "the sides differ" is one test over all columns."""

import numpy as np
import polars as pl
import pytest

from pellucid.api.split import split
from pellucid.data import TableData, open_data
from pellucid.data.options import DataOptions
from pellucid.data.prepare import table_sides
from pellucid.data.readers.columns import decide_column, make_table
from pellucid.data.splits import SIDES, SplitRequest
from pellucid.data.splits.distributions import levels_of
from pellucid.data.splits.groups import beyond_neighbours, find_group, intraclass
from pellucid.data.splits.hashing import row_hashes
from pellucid.data.splits.proposal import choose_sides, sides_by
from pellucid.data.splits.split import split_data
from pellucid.errors import PellucidError
from pellucid.figures.words.notes import note_sentences
from pellucid.figures.words.splitting import choice_sentences, reasons, verdict_sentences
from pellucid.training.tasks import open_task


def table(columns: dict[str, object]) -> TableData:
    """As a CSV file with these columns is read."""
    frame = pl.DataFrame(columns)
    texts = frame.select(pl.all().cast(pl.String))
    decided = [decide_column(column, lambda row: f"row {row}") for column in texts.get_columns()]
    return make_table("some.csv", decided, because="", fingerprint="")


def customers(seed: int, *, is_text: bool, is_shuffled: bool = True) -> TableData:
    """400 customers with five rows each and one label: rows of a customer are nearly alike."""
    draw = np.random.default_rng(seed)
    who = np.repeat(np.arange(400), 5)
    base, label = draw.normal(size=(400, 3)), draw.choice(["stay", "leave"], 400)
    order = draw.permutation(2000) if is_shuffled else np.arange(2000)
    who = who[order]
    values = (base[who] + 0.1 * draw.normal(size=(2000, 3))).round(3)
    names = [f"C{one:04d}" for one in who] if is_text else (1000 + 7 * who).tolist()
    return table({"customer": names, "a": values[:, 0], "b": values[:, 1], "c": values[:, 2], "label": label[who]})


@pytest.mark.parametrize("is_text", [True, False])
@pytest.mark.parametrize("is_shuffled", [True, False])
def test_customers_with_labels_of_their_own_are_never_divided(is_text, is_shuffled):
    data = customers(0, is_text=is_text, is_shuffled=is_shuffled)
    sides = table_sides(data, "label")
    assert sides.split is not None
    assert (sides.split.strategy, sides.split.column, sides.split.is_proposed) == ("group", "customer", True)
    held = {side: set(data.frame["customer"][sides.places[side]].to_list()) for side in SIDES}
    assert not held["train"] & held["dev"]
    assert not held["train"] & held["test"]
    assert "customer" not in sides.preparation.features
    assert any(note.startswith("customer is the group") for note in note_sentences(sides.notes))
    said = choice_sentences(sides.split)[0]
    assert "no customer stands on two sides: customer has 400 values with 5 rows each on average" in said
    assert "they share label beyond chance (intraclass correlation 1.00)" in said


def test_what_is_asked_for_is_done_and_a_group_on_two_sides_is_told():
    data = customers(0, is_text=False)
    by_hash = table_sides(data, "label", split=SplitRequest("hash")).split
    assert by_hash is not None
    assert (by_hash.strategy, by_hash.is_proposed) == ("hash", False)
    assert choice_sentences(by_hash)[0].startswith("customer looks like a group, and stands on several sides")
    strata = table_sides(data, "label", split=SplitRequest("stratified"))
    shares = [float(np.mean(getattr(strata, side).targets)) for side in SIDES]
    assert max(shares) - min(shares) < 0.01
    with pytest.raises(PellucidError, match=r"has no column .custome.\. Perhaps you meant 'customer'"):
        table_sides(data, "label", split=SplitRequest(group="custome"))
    with pytest.raises(PellucidError, match="cannot divide the rows"):
        DataOptions(target="label", group="label")


def test_split_names_the_leak_that_a_divided_group_is():
    data = customers(0, is_text=True)
    report = split_data(data, SplitRequest("hash", target="label", repeats=0)).report
    assert report.has_found_something_wrong
    assert "rows with the same customer" in verdict_sentences(report)[0]
    proposed = split_data(data, SplitRequest(target="label", repeats=0)).report
    assert (proposed.strategy, proposed.settings["group"]) == ("group", "customer")
    assert not proposed.has_found_something_wrong
    assert reasons(proposed)[0] == "customer has 400 values with 5 rows each on average"


def test_a_panel_is_divided_by_man_and_not_by_row():
    """545 men over 8 years: schooling never changes within a man, and his wages resemble each other."""
    draw = np.random.default_rng(0)
    man = np.repeat(np.arange(545), 8)
    school = draw.integers(6, 17, 545)
    wage = (school[man] / 10 + draw.normal(size=545)[man] + 0.3 * draw.normal(size=4360)).round(3)
    data = table({"nr": 13 + 23 * man, "year": np.tile(np.arange(1980, 1988), 545), "educ": school[man], "wage": wage})
    found = find_group(data, "wage")
    assert found is not None
    assert (found.name, found.n_groups, found.same) == ("nr", 545, ("educ",))
    assert found.shared_target > 0.8


def test_numbers_and_categories_that_only_tell_are_no_groups():
    """Age tells income and town tells rent, and neither is what the rows are about: 20 tables, no group in any."""
    for seed in range(20):
        draw = np.random.default_rng(seed)
        age, town = draw.integers(18, 80, 3000), draw.integers(0, 60, 3000)
        income = (100 - (age - 50) ** 2 / 30 + 5 * draw.normal(size=3000)).round(2)
        data = table(
            {
                "age": age,
                "town": [f"town {one}" for one in town],
                "rent": (draw.normal(size=60)[town] + 2 * draw.normal(size=3000)).round(2),
                "income": income,
            }
        )
        assert find_group(data, "income") is None
        assert find_group(data, "rent") is None
        assert find_group(data) is None


def test_a_group_that_tells_nothing_is_none():
    draw = np.random.default_rng(0)
    data = table({"id": np.repeat(np.arange(200), 5), "x": draw.normal(size=1000), "y": draw.normal(size=1000)})
    assert find_group(data, "y") is None


def test_the_intraclass_correlation_is_that_of_the_analysis_of_variance():
    """Groups of equal size k: (MSB - MSW) / (MSB + (k - 1) MSW), written out."""
    draw = np.random.default_rng(0)
    codes = np.repeat(np.arange(50), 4)
    values = draw.normal(size=50)[codes] + draw.normal(size=200)
    groups = values.reshape(50, 4)
    between = 4 * ((groups.mean(1) - values.mean()) ** 2).sum() / 49
    within = ((groups - groups.mean(1, keepdims=True)) ** 2).sum() / 150
    assert intraclass(values[:, None], codes)[0] == pytest.approx((between - within) / (between + 3 * within))
    line = codes.astype(float)[:, None]
    assert np.abs(beyond_neighbours(line, codes)[20:180]).max() < 1e-9  # neighbours tell a line


def rows_over_time(n: int, *, drift: float, seed: int = 0) -> TableData:
    draw = np.random.default_rng(seed)
    days = np.sort(draw.integers(0, 900, n))
    dates = [str(np.datetime64("2020-01-01") + int(day)) for day in days]
    shuffled = draw.permutation(n)
    x = draw.normal(size=n) + drift * days / 900
    return table(
        {
            "date": np.array(dates)[shuffled],
            "x": x[shuffled].round(3),
            "y": draw.choice(["a", "b"], n),
            "z": draw.normal(size=n),
        }
    )


def test_dates_are_proposed_for_time_where_something_drifts():
    data = rows_over_time(1000, drift=2.0)
    sides = table_sides(data, "y")
    assert sides.split is not None
    assert (sides.split.strategy, sides.split.column) == ("time", "date")
    dates = data.frame["date"].to_numpy()
    assert max(dates[sides.places["train"]]) <= min(dates[sides.places["dev"]])
    assert max(dates[sides.places["dev"]]) <= min(dates[sides.places["test"]])
    assert "along it x drifts" in choice_sentences(sides.split)[0]
    still = table_sides(rows_over_time(1000, drift=0.0), "y").split
    assert still is not None
    assert still.strategy == "hash"
    assert "take order=date" in choice_sentences(still)[0]
    assert split_data(data, SplitRequest(repeats=0)).report.strategy == "time"


def test_row_numbers_of_a_sorted_file_are_no_time():
    draw = np.random.default_rng(0)
    kind = np.repeat(["ant", "bee", "cow"], 100)
    size = (np.repeat([1.0, 5.0, 9.0], 100) + draw.normal(size=300)).round(3)
    report = split_data(table({"row": np.arange(1, 301), "size": size, "kind": kind}), SplitRequest(repeats=0)).report
    assert report.strategy == "hash"
    assert not report.has_found_something_wrong
    assert "row only numbers rows that are sorted by kind, so it tells no time" in reasons(report)


@pytest.mark.parametrize("is_grouped", [False, True])
def test_random_sides_are_called_different_once_in_100(is_grouped):
    """40 seeds and 30 columns at a level of 1 in 100 for all together; two false alarms in 40 have odds of 1 in 16."""
    draw = np.random.default_rng(0)
    n = 600
    frame = {f"x{place}": draw.normal(size=n).round(3) for place in range(20)}
    frame |= {f"c{place}": draw.choice(["a", "b", "c", "d"], n) for place in range(10)}
    who = np.repeat(np.arange(120), 5)
    if is_grouped:  # rows of a person are the same in all columns but one
        frame = {name: np.asarray(values)[who * 5] for name, values in frame.items()} | {
            "person": who,
            "n": np.arange(n) % 5,
        }
    data = table(frame)
    alarms = 0
    for seed in range(40):
        asked = SplitRequest(
            "group" if is_grouped else "hash", group="person" if is_grouped else "", seed=str(seed), repeats=0
        )
        report = split_data(data, asked).report
        alarms += any("The sides differ" in sentence for sentence in verdict_sentences(report))
    assert alarms <= 2


def test_sides_that_differ_are_still_told():
    draw = np.random.default_rng(0)
    frame = {f"x{place}": draw.normal(size=1000) for place in range(20)} | {
        "t": np.arange(1000),
        "drifting": np.arange(1000) / 1000,
    }
    report = split_data(table(frame), SplitRequest("time", order="t", repeats=0)).report
    assert any("farthest from train is drifting on" in sentence for sentence in verdict_sentences(report))


def test_train_and_split_take_the_same_options(tmp_path):
    path = tmp_path / "panel.csv"
    customers(1, is_text=True).frame.write_csv(path)
    task = open_task(DataOptions(str(path), target="label"))
    assert task.facts.split is not None
    assert task.facts.split.strategy == "group"
    asked = open_task(DataOptions(str(path), target="label", strategy="stratified"))
    assert asked.facts.split is not None
    assert (asked.facts.split.strategy, asked.facts.split.column) == ("stratified", "label")
    report = split(path, target="label", dry_run=True).report.record
    assert report.settings["group"] == "customer"


def test_classes_that_only_come_later_and_missing_targets_are_told():
    days = [str(np.datetime64("2023-01-01") + day) for day in range(300)]
    kinds = ["c" if day > 285 else "" if day == 3 else "ab"[day % 2] for day in range(300)]
    data = table({"date": days, "x": np.arange(300) / 100 + 0.001, "kind": kinds})
    sides = table_sides(data, "kind", split=SplitRequest("time", order="date"))
    assert "never in train, so no model can know them: 'c'" in note_sentences(sides.notes)
    assert "1 of 300 rows have no kind and were left out" in note_sentences(sides.notes)
    report = split_data(data, SplitRequest(target="kind", repeats=0)).report
    assert "1 of 300 rows have no kind; train leaves them out" in note_sentences(report.notes)


def test_the_group_itself_is_not_compared_between_sides():
    report = split_data(customers(0, is_text=True), SplitRequest(target="label", repeats=0)).report
    assert {one.column for one in report.agreements} == {"a", "b", "c", "label"}


def test_years_as_whole_numbers_are_told_and_decide_nothing(tmp_path):
    rows = [f"{2000 + place % 12},{place * 7 % 31},{place * place % 13}" for place in range(120)]
    for name, is_told in (("year", True), ("age", False)):
        (tmp_path / f"{name}.csv").write_text("\n".join([f"{name},x,y", *rows]))
        choice = table_sides(open_data(str(tmp_path / f"{name}.csv")), "y").split
        assert choice.strategy == "hash"
        assert any("year holds years: for a model" in line for line in choice_sentences(choice)) == is_told


@pytest.mark.parametrize("sizes", [(100, 100, 100), (250, 30, 20), (20, 250, 30), (5, 5, 290)])
def test_three_groups_make_three_sides(tmp_path, sizes):
    """Whichever are large: train, dev and test get one each, in training and in what split writes."""
    rows = [f"{name},{place}" for name, size in zip("uvw", sizes, strict=True) for place in range(size)]
    (tmp_path / "few.csv").write_text("\n".join(["g,x", *rows]) + "\n")
    table = open_data(str(tmp_path / "few.csv"))
    asked = SplitRequest("group", group="g")
    hashes = row_hashes(table.frame, ["x"])
    for sides in (choose_sides(table, "", asked, hashes).sides, sides_by(table, asked, {}, hashes, None)):
        assert sorted(np.unique(sides).tolist()) == [0, 1, 2]
        for name in "uvw":
            assert len(np.unique(sides[(table.frame["g"] == name).to_numpy()])) == 1


@pytest.mark.parametrize(("n_groups", "is_stable"), [(3, False), (300, True)])
def test_that_rows_keep_their_sides_is_said_only_where_a_hash_alone_decides(n_groups, is_stable):
    rows = table({"g": [f"g{i % n_groups}" for i in range(900)], "x": list(range(900))})
    report = split_data(rows, SplitRequest("group", group="g")).report
    assert min(report.sizes.values()) > 0
    assert report.is_stable == is_stable


def test_two_groups_cannot_make_three_sides(tmp_path):
    (tmp_path / "two.csv").write_text("\n".join(["g,x", *[f"{'ab'[i % 2]},{i}" for i in range(60)]]) + "\n")
    table = open_data(str(tmp_path / "two.csv"))
    with pytest.raises(PellucidError, match="g has too few different values to divide 60 rows in three"):
        choose_sides(table, "", SplitRequest("group", group="g"), row_hashes(table.frame, ["x"]))


def test_known_levels_change_nothing():
    """The group is the same, whether its levels are known already or not."""
    draw = np.random.default_rng(0)
    people = np.repeat(np.arange(60), 6) * 3  # with gaps between them
    cells = {"person": people, "kind": np.repeat(draw.integers(0, 4, 60), 6), "value": draw.normal(size=360)}
    table = make_table(
        "t", [decide_column(pl.Series(name, cell), str) for name, cell in cells.items()], because="", fingerprint=""
    )
    found = find_group(table)
    assert found is not None
    assert found.name == "person"
    assert found == find_group(table, "", {name: levels_of(table.frame[name]) for name in cells})
    assert find_group(table, "value") == find_group(table, "value", {"person": levels_of(table.frame["person"])})
