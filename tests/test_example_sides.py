"""Rows, images and pairs as numbers: honest sides, nothing learned from dev or test, nothing that becomes nan."""

import copy
import datetime
import json
import math
import os

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.at_length import examples

from pellucid.data import PairsData, PixelsData, open_data
from pellucid.data.kinds import ReadOptions
from pellucid.data.prepare import (
    ImagePreparation,
    TablePreparation,
    image_sides,
    pair_sides,
    preparation_from_json,
    preparation_to_json,
    table_sides,
)
from pellucid.data.prepare.examples import FARTHEST, mean_and_deviation, places_by_hash, standardise
from pellucid.data.prepare.targets import likely_targets
from pellucid.data.readers.csv import read_csv
from pellucid.data.readers.memory import read_memory
from pellucid.data.readers.sources import MemorySource
from pellucid.data.splits import SIDES, SplitRequest
from pellucid.data.splits.assignment import sides_of
from pellucid.errors import LONGEST_LINE, PREFIX, PellucidError
from pellucid.figures.words.notes import note_sentences


def table(content, name="some.csv"):
    return read_csv(MemorySource(name, content.encode()), ReadOptions(), "")


def csv(header, rows):
    return table("\n".join([header, *(",".join(str(cell) for cell in row) for row in rows)]) + "\n")


def refusal(call, *arguments, **options):
    with pytest.raises(PellucidError) as caught:
        call(*arguments, **options)
    line = str(caught.value)
    assert len(PREFIX + line) <= LONGEST_LINE
    assert line.isprintable()
    return line


def cats_and_dogs(n=200):
    """Weight and tail tell cats from dogs; an id, a name and a day tell nothing."""
    draw = np.random.default_rng(0)
    return csv(
        "id,name,weight,coat,born,pet",
        [
            (
                i,
                f"x{draw.integers(10**9)}",
                "" if i % 10 == 3 else round(float(draw.normal(4 + 10 * (i % 2), 1)), 2),
                ("short", "long", "")[int(draw.integers(3))],
                f"2024-01-{1 + i % 28:02d}",
                ("cat", "dog")[i % 2],
            )
            for i in range(n)
        ],
    )


# Sides.


def test_every_row_stands_on_one_side_and_its_place_is_known():
    data = cats_and_dogs()
    sides = table_sides(data, "pet")
    assert sorted(np.concatenate([sides.places[side] for side in SIDES])) == list(range(200))
    for side in SIDES:
        pets = [sides.classes[label] for label in getattr(sides, side).targets]
        assert pets == data.frame["pet"][sides.places[side]].to_list()


def test_equal_rows_share_a_side_whatever_their_row_number_and_target():
    draw = np.random.default_rng(0)
    rows = [(i, draw.integers(8), draw.integers(8), draw.integers(2)) for i in range(300)]
    data = csv("id,a,b,y", rows)
    assert data.column("id").kind == "order"
    sides = table_sides(data, "y")
    seen = {}
    for side in SIDES:
        for place in sides.places[side]:
            assert seen.setdefault(rows[place][1:3], side) == side
    assert set(seen.values()) == set(SIDES)


def test_cases_of_a_few_kinds_are_divided_by_their_place_and_that_is_said():
    rows = [("rgb"[i % 3], "xy"[i % 2], int(i % 7 == 0)) for i in range(600)]
    few, more = (table_sides(csv("colour,axis,y", rows[:n]), "y") for n in (300, 600))
    assert "the rows have 6 different forms only, so equal ones stand on every side" in note_sentences(few.notes)
    for side in SIDES:
        assert len({rows[place][:2] for place in more.places[side]}) == 6
        assert set(few.places[side]) <= set(more.places[side])
    assert 0.7 < len(more.train) / 600 < 0.9


def test_no_row_moves_when_others_are_added():
    few, many = table_sides(cats_and_dogs(200), "pet"), table_sides(cats_and_dogs(300), "pet")
    for side in SIDES:
        assert set(few.places[side]) <= set(many.places[side])


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 5)), min_size=1, max_size=40))
def test_of_any_rows_train_has_every_class_and_equal_ones_stay_together(rows):
    hashes = np.array([word for word, _ in rows], dtype=np.uint64)
    labels = np.array([label for _, label in rows])
    labels = np.unique(labels, return_inverse=True)[1]
    places = places_by_hash(hashes, labels)
    assert sorted(np.concatenate(list(places.values()))) == list(range(len(rows)))
    assert set(labels[places["train"]]) == set(labels)
    if not len(places["dev"]):
        # Train could spare none: without any one hash, a class or everything would be gone.
        assert not len(places["test"])
        for word in hashes:
            assert set(labels[hashes != word]) != set(labels)
    words = [set(hashes[where].tolist()) for where in places.values()]
    assert not words[0] & words[1]
    assert not words[0] & words[2]
    assert not words[1] & words[2]


def test_a_class_with_one_member_stays_in_train():
    rows = [(i * 0.5, "ab"[i % 2]) for i in range(60)]
    for place in (0, 17, 31, 59):
        rows[place] = (rows[place][0], f"single{place}")
    sides = table_sides(csv("x,y", rows), "y")
    assert {0, 17, 31, 59} <= set(sides.places["train"])
    assert "4 classes have one member, which stays in train" in note_sentences(sides.notes)
    assert set(sides.train.targets) == set(range(6))


def test_of_fewer_than_ten_different_rows_none_is_held_out():
    sides = table_sides(open_data("xor"), "")  # whoever made the set says what it is there to predict
    assert (sides.target, len(sides.train), len(sides.dev), len(sides.test)) == ("y", 4, 0, 0)
    assert (sides.split.strategy, sides.split.is_proposed, sides.split.n_different) == ("none", True, 4)
    rows = [(i, "ab"[i % 2]) for i in range(10)]
    assert len(table_sides(csv("x,y", rows[:9]), "y").train) == 9
    assert len(table_sides(csv("x,y", rows[:9] * 2), "y").train) == 18  # nine different ones
    ten = table_sides(csv("x,y", rows), "y")
    assert len(ten.dev) == 1
    assert ten.split.strategy == "hash"


def test_few_rows_are_divided_where_that_is_asked_for_and_none_where_train_can_spare_none():
    asked = table_sides(open_data("xor"), "y", split=SplitRequest(strategy="hash"))
    assert len(asked.dev) == 1
    assert set(asked.train.targets) == {0, 1}
    twins = [(i, f"class {i}") for i in range(12) for _ in range(2)]  # held out, a class would be gone
    sides = table_sides(csv("x,y", twins), "y")
    assert (len(sides.train), len(sides.dev), sides.split.strategy) == (24, 0, "none")
    assert not sides.split.is_proposed


def test_of_fewer_than_ten_different_images_none_is_held_out():
    array = np.random.default_rng(0).integers(0, 256, (9, 8, 8), dtype=np.uint8)
    few = image_sides(pixels(array, np.arange(9) % 2))
    assert (len(few.train), len(few.dev), len(few.test), few.split.n_different) == (9, 0, 0, 9)
    more = image_sides(pixels(np.concatenate([array, array[:1] + 77]), np.arange(10) % 2))
    assert len(more.dev)
    assert more.split is None


def test_fewer_training_examples_are_among_more_and_mixed():
    sides = table_sides(cats_and_dogs(), "pet", leave_out=["born"])
    few, more = sides.limited(20), sides.limited(60)
    assert set(few.places["train"]) < set(more.places["train"]) < set(sides.places["train"])
    assert len(few.train) == 20
    assert set(few.train.targets) == {0, 1}
    assert few.dev is sides.dev
    assert "there are" in refusal(sides.limited, 10_000)
    assert "there are" in refusal(sides.limited, 0)


# Numbers.


def test_numbers_are_standardised_by_train_alone():
    data = cats_and_dogs()
    sides = table_sides(data, "pet", leave_out=["born"])
    weights = data.frame["weight"][sides.places["train"]].drop_nulls().to_numpy()
    (weight,) = sides.preparation.numeric
    assert (weight.name, weight.has_gaps) == ("weight", True)
    assert weight.mean == pytest.approx(weights.mean())
    assert weight.deviation == pytest.approx(weights.std())
    numbers, gaps = sides.train.numbers.T
    assert numbers.dtype == np.float32
    assert np.allclose(numbers[gaps == 0], (weights - weights.mean()) / weights.std(), atol=1e-5)
    assert (numbers[gaps == 1] == 0).all()
    assert gaps.sum() == data.frame["weight"][sides.places["train"]].null_count() > 0


def test_gaps_have_a_place_of_their_own_only_where_train_has_some():
    sides = table_sides(open_data("penguins"), "species")
    frame = open_data("penguins").frame[sides.places["train"]]
    for column in sides.preparation.numeric:
        assert column.has_gaps == bool(frame[column.name].null_count())
    assert sides.preparation.numbers_shape == sides.train.numbers.shape[1:]


@pytest.mark.parametrize(
    "values",
    [
        [1e308, -1e308, 1e308, 0.0],
        [1.7e308, 1.7e308, -1.7e308, 1.0],
        [5e-324, 0.0, 5e-324, 1e-310],
        [-0.0, 0.0, 1.0, 2.0],
        [1e15 + 1, 1e15, 1e15 + 2, 1e15],
        [3.0, 3.0, 3.0, 3.0],
        [0.1 + 0.2, 0.1 + 0.2, 0.1 + 0.2],
        [1e-300, 1e300, 1.0],
    ],
)
def test_extreme_and_constant_numbers_stay_finite(values):
    numbers = np.array(values)
    mean, deviation = mean_and_deviation(numbers)
    assert math.isfinite(mean)
    assert math.isfinite(deviation)
    assert deviation > 0
    for unseen in (numbers, np.array([1.7e308, -1.7e308, 5e-324, np.nan])):
        found = standardise(unseen, mean, deviation)
        assert np.isfinite(found).all()
        assert np.abs(found).max() <= FARTHEST


def test_ordinary_numbers_are_standardised_as_usual():
    numbers = np.random.default_rng(0).normal(-7, 3, 1000)
    assert mean_and_deviation(numbers) == pytest.approx((numbers.mean(), numbers.std()))
    usual = (numbers - numbers.mean()) / numbers.std()
    assert np.allclose(standardise(numbers, *mean_and_deviation(numbers)), usual, atol=1e-6)


def test_a_table_of_extremes_has_no_nan_on_any_side():
    draw = np.random.default_rng(1)
    rows = [(f"{draw.normal() * 10.0 ** draw.integers(-300, 300):.17e}", draw.integers(2)) for _ in range(300)]
    for sides in (table_sides(csv("x,y", rows), "y"), table_sides(csv("x,y", rows), "x", task="regression")):
        for side in (sides.train, sides.dev, sides.test):
            assert np.isfinite(side.numbers).all()
            assert np.isfinite(side.targets).all()


def test_a_number_to_predict_comes_back_in_its_own_units():
    data = open_data("penguins")
    sides = table_sides(data, "body_mass_g")
    assert (sides.task, sides.classes) == ("regression", ())
    assert sides.train.targets.dtype == np.float32
    assert sides.train.targets.mean() == pytest.approx(0, abs=1e-5)
    assert sides.train.targets.std() == pytest.approx(1, abs=1e-5)
    for side in SIDES:
        grams = data.frame["body_mass_g"][sides.places[side]].to_numpy()
        assert np.allclose(sides.preparation.in_units(getattr(sides, side).targets), grams, atol=0.01)


# Columns.


def test_a_category_that_only_dev_or_test_has_is_unknown_and_counted():
    rows = [("rgb"[i % 3], i, i % 2) for i in range(100)]
    sides = table_sides(csv("colour,x,y", [(c, x * 0.5, y) for c, x, y in rows]), "y")
    held = int(np.concatenate([sides.places["dev"], sides.places["test"]])[0])
    # The row keeps its place: its hash is that of other cells, so look for a value that stays out of train.
    for word in (f"odd{i}" for i in range(50)):
        changed = [(word if i == held else c, x * 0.5, y) for i, (c, x, y) in enumerate(rows)]
        found = table_sides(csv("colour,x,y", changed), "y")
        if held not in found.places["train"]:
            break
    (column,) = found.preparation.categories
    assert column.values == ("b", "g", "r")
    assert found.n_unknown == 1
    side = "dev" if held in found.places["dev"] else "test"
    at = found.places[side].tolist().index(held)
    assert getattr(found, side).codes[at, 0] == 0


def test_what_a_network_cannot_read_is_left_out_with_a_note():
    sides = table_sides(cats_and_dogs(), "pet", leave_out=["born"])
    assert sides.preparation.features == ("weight", "coat")
    assert sides.preparation.category_sizes == (3,)
    assert "id only tells an order and was left out" in note_sentences(sides.notes)
    assert "left out as asked: born" in note_sentences(sides.notes)
    assert "name holds text that names no groups and was left out" in note_sentences(sides.notes)
    assert note_sentences(sides.notes)[0].startswith("pet: classification into 2 classes (it holds texts)")


def test_a_curve_over_counted_steps_can_be_learned():
    sides = table_sides(csv("step,height", [(i, i * 0.25 + 0.1) for i in range(50)]), "height")
    assert sides.preparation.features == ("step",)
    assert len({tuple(row) for row in sides.train.numbers.tolist()}) == len(sides.train)


def test_columns_that_say_nothing_in_train_are_left_out_with_a_note():
    rows = [(1, "", i * 0.5, "ab"[i % 2]) for i in range(60)]
    sides = table_sides(csv("one,none,x,y", rows), "y")
    assert sides.preparation.features == ("x",)
    assert "one is the same in every row and was left out" in note_sentences(sides.notes)
    assert "none has no value and was left out" in note_sentences(sides.notes)
    # One odd cell, of a row that is held out: the same in all of train.
    for held in range(60):
        odd = [(2 if i == held else 1, "", row[2], row[3]) for i, row in enumerate(rows)]
        found = table_sides(csv("one,none,x,y", odd), "y")
        if held not in found.places["train"]:
            break
    assert found.preparation.features == ("x",)
    assert "one is the same in every row of train and was left out" in note_sentences(found.notes)


def test_leaks_and_repeated_rows_are_said():
    rows = [(i % 7, (i % 7) * 2.5, "ab"[i % 2]) for i in range(60)]
    sides = table_sides(csv("x,double,y", rows), "double")
    assert [leak.column for leak in sides.leaks] == ["x"]
    assert any("rows repeat an earlier one" in note for note in note_sentences(sides.notes))


def test_of_bad_targets_are_refused_by_name():
    data = cats_and_dogs()
    assert "Perhaps you meant 'pet'" in refusal(table_sides, data, "Pet")
    assert "has no column 'zzz'" in refusal(table_sides, data, "zzz")
    assert "20 of 200 rows have no target 'weight' (first: line 5)" in refusal(
        table_sides, data, "weight", refuse_missing=True
    )
    assert "in every row" in refusal(table_sides, csv("x,y", [(i, 1) for i in range(20)]), "y")
    many = csv("x,y", [(i * 0.1, i * 0.37) for i in range(100)])
    assert "try task='regression'" in refusal(table_sides, many, "y", task="classification")
    assert "not numbers" in refusal(table_sides, data, "pet", task="regression")
    assert "no task called" in refusal(table_sides, data, "pet", task="clustering")


def test_rows_without_a_target_are_left_out_and_places_stay_true():
    data = cats_and_dogs()
    sides = table_sides(data, "weight")
    assert "20 of 200 rows have no weight and were left out" in note_sentences(sides.notes)
    places = np.concatenate([sides.places[side] for side in SIDES])
    assert len(places) == 180
    assert not data.frame["weight"][places].null_count()


def test_a_target_that_is_not_named_is_asked_for_with_the_likeliest():
    line = refusal(table_sides, open_data("penguins"), "")
    assert "Add target='species'; it has 'species', 'island'" in line
    assert likely_targets(csv("a,Label,b", [(1.5, 2.5, "x")] * 5))[0] == "Label"
    assert likely_targets(open_data("moons"))[0] == "moon"
    assert likely_targets(open_data("polynomial"))[0] == "y"


def test_a_table_may_be_reconstructed_with_or_without_a_target():
    whole = table_sides(open_data("penguins"), "", task="reconstruction")
    assert (whole.task, whole.target, whole.classes) == ("reconstruction", "", ())
    assert "species" in whole.preparation.features
    assert not whole.train.targets.any()
    coloured = table_sides(open_data("penguins"), "species", task="reconstruction")
    assert (coloured.task, coloured.classes) == ("reconstruction", ("Adelie", "Chinstrap", "Gentoo"))
    assert "species" not in coloured.preparation.features
    assert "the same in all rows" in refusal(table_sides, csv("x", [(1,)] * 9), "", task="reconstruction")


def test_whole_numbers_as_classes_stand_in_their_own_order():
    data = csv("x,grade", [(i * 0.5, (10, 9, 2)[i % 3]) for i in range(60)])
    sides = table_sides(data, "grade")
    assert sides.classes == ("2", "9", "10")
    grades = data.frame["grade"][sides.places["train"]].to_list()
    assert [int(sides.classes[label]) for label in sides.train.targets] == grades


def test_a_table_larger_than_memory_is_refused_with_both_numbers(monkeypatch):
    data = cats_and_dogs()
    monkeypatch.setattr("pellucid.data.readers.sources.physical_memory", lambda: 1000)
    assert "and this machine has" in refusal(table_sides, data, "pet")


# New rows.


def test_new_rows_are_read_as_the_old_ones_were():
    data = cats_and_dogs()
    sides = table_sides(data, "pet", leave_out=["born"])
    stored = preparation_from_json(json.loads(json.dumps(preparation_to_json(sides.preparation))))
    assert stored == sides.preparation
    read = stored.read(data)
    for side in SIDES:
        assert np.array_equal(read.numbers[sides.places[side]], getattr(sides, side).numbers)
        assert np.array_equal(read.codes[sides.places[side]], getattr(sides, side).codes)
    assert read.n_unknown == sides.n_unknown
    assert note_sentences(read.notes) == ["not read, for the network does not know them: 'id', 'name', 'born'"]


def test_new_rows_need_no_target_and_may_have_anything_else():
    preparation = table_sides(cats_and_dogs(), "pet", leave_out=["born"]).preparation
    read = preparation.read(csv("coat,a,b,weight,c,d", [("short", 1, 2, 3.5, 4, 5), ("curly", 1, 2, "", 4, 5)]))
    assert read.codes.tolist() == [[2], [0]]
    assert read.n_unknown == 1
    assert read.numbers[1].tolist() == [0, 1]
    assert note_sentences(read.notes) == ["not read, for the network does not know them: 'a', 'b', 'c' and 1 more"]


def test_new_rows_without_a_feature_are_refused_by_its_name():
    preparation = table_sides(cats_and_dogs(), "pet", leave_out=["born"]).preparation
    line = refusal(preparation.read, csv("Weight,coat", [(1, "long")] * 3))
    assert "has no column 'weight', which the network reads. Perhaps its 'Weight' is 'weight'; rename it" in line
    wide = table_sides(open_data("polynomial"), "y").preparation
    assert "has no column 'x1', 'x2', 'x3' and 1 more, which the network reads. Add them" in refusal(
        wide.read, csv("other,y", [(1, 2)] * 3)
    )


def test_a_text_where_numbers_were_is_refused_by_its_line():
    preparation = table_sides(cats_and_dogs(), "pet", leave_out=["born"]).preparation
    line = refusal(preparation.read, csv("weight,coat", [(1, "long"), ("heavy", "short"), (2, "long")]))
    assert "'weight' held numbers in training, and a cell is 'heavy' on line 3" in line


def test_types_that_new_rows_seem_to_have_do_not_matter():
    # The categories look like numbers here, and the numbers are all missing.
    rows = [(("1", "2", "x")[i % 3], i * 0.5, i % 2) for i in range(90)]
    preparation = table_sides(csv("code,x,y", rows), "y").preparation
    read = preparation.read(csv("code,x", [(1, ""), (2, ""), (3, "")]))
    assert read.codes.tolist() == [[1], [2], [0]]
    assert read.n_unknown == 1
    assert not read.numbers.any()


# Images.


def pixels(images, labels, classes=("a", "b")):
    return PixelsData("some", np.array(images, dtype=np.uint8), np.array(labels), classes, because="", fingerprint="")


@pytest.fixture
def folder(tmp_path):
    def written(pictures):
        """pictures: class -> list of Pillow images."""
        for label, images in pictures.items():
            (tmp_path / label).mkdir()
            for i, image in enumerate(images):
                image.save(tmp_path / label / f"{i:03}.png")
        return open_data(tmp_path)

    return written


def speckled(size, mode="L", seed=0):
    draw = np.random.default_rng(seed)
    shape = (size[1], size[0]) + ((3,) if mode == "RGB" else ())
    return Image.fromarray(draw.integers(0, 256, shape, dtype=np.uint8))


def test_images_are_standardised_by_the_channel_and_by_train():
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (60, 4, 5, 3)) // [1, 2, 3]
    sides = image_sides(pixels(images, np.arange(60) % 2))
    assert sides.train.numbers.shape[1:] == sides.preparation.numbers_shape == (3, 4, 5)
    assert sides.train.codes.shape == (len(sides.train), 0)
    train = images[sides.places["train"]]
    assert sides.preparation.mean == pytest.approx(train.mean((0, 1, 2)))
    assert sides.preparation.deviation == pytest.approx(train.std((0, 1, 2)))
    wanted = (train - train.mean((0, 1, 2))) / train.std((0, 1, 2))
    assert np.allclose(sides.train.numbers, np.moveaxis(wanted, -1, 1), atol=1e-5)


def test_images_without_contrast_stay_finite():
    sides = image_sides(pixels(np.full((9, 8, 8), 7) + np.arange(9)[:, None, None] // 8, np.arange(9) % 2))
    assert np.isfinite(sides.train.numbers).all()


def test_equal_images_share_a_side_and_every_class_trains():
    draw = np.random.default_rng(0)
    different = draw.integers(0, 256, (40, 8, 8))
    images, labels = np.concatenate([different] * 3), np.repeat([0, 1, 0], 40)
    sides = image_sides(pixels(images, labels))
    for side in SIDES:
        assert sorted(sides.places[side] % 40) == sorted(np.repeat(np.unique(sides.places[side] % 40), 3))
    assert set(sides.train.targets) == {0, 1}
    lonely = image_sides(pixels(different, [0] * 39 + [1]))
    assert 39 in lonely.places["train"]
    assert "1 classes have one image, which stays in train" in note_sentences(lonely.notes)


@pytest.mark.parametrize(
    ("sizes", "wanted", "note"),
    [
        ([(9, 12)], (9, 12), ""),
        ([(8, 8)], (8, 8), ""),
        ([(64, 64)], (64, 64), ""),
        ([(65, 64)], (32, 32), "the images are 65×64, and are read as 32×32; image_size changes that"),
        ([(1, 1)], (32, 32), "the images are 1×1, and are read as 32×32; image_size changes that"),
        ([(9, 12), (12, 9)], (32, 32), "the images are of 2 sizes, and are read as 32×32; image_size changes that"),
    ],
)
def test_the_common_size_is_the_documented_one(folder, sizes, wanted, note):
    pictures = [speckled(sizes[i % len(sizes)], seed=i) for i in range(12)]
    sides = image_sides(folder({"a": pictures[:6], "b": pictures[6:]}))
    assert sides.preparation.size == wanted
    assert sides.train.numbers.shape[2:] == (wanted[1], wanted[0])
    assert not note or note in note_sentences(sides.notes)


def test_colour_is_seen_where_there_is_some(folder):
    gray = [speckled((9, 9), seed=i) for i in range(8)]
    stored_as_colour = [one.convert("RGB") for one in gray]
    data = folder({"a": gray, "b": stored_as_colour})
    assert image_sides(data).preparation.mode == "gray"
    assert image_sides(data, mode="rgb").preparation.numbers_shape == (3, 9, 9)
    (file,) = [file for file in data.files if file.path.name == "005.png" and file.label == "b"]
    speckled((9, 9), "RGB").save(file.path)
    assert image_sides(data).preparation.mode == "rgb"


def test_new_files_are_read_as_the_old_ones_were(folder):
    data = folder({"a": [speckled((20, 9), "RGB", i) for i in range(9)], "b": [speckled((9, 9)) for _ in range(2)]})
    sides = image_sides(data)
    stored = preparation_from_json(json.loads(json.dumps(preparation_to_json(sides.preparation))))
    assert stored == sides.preparation
    read = stored.read(stored.pixels_of([file.path for file in data.files]))
    for side in SIDES:
        assert np.array_equal(read[sides.places[side]], getattr(sides, side).numbers)


def test_pixels_in_another_size_or_mode_are_as_files_would_be(folder):
    array = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
    given = image_sides(pixels(array, np.arange(20) % 2), size=(12, 10), mode="rgb")
    halves = {"a": array[::2], "b": array[1::2]}
    data = folder({label: [Image.fromarray(one) for one in half] for label, half in halves.items()})
    found = image_sides(data, size=(12, 10), mode="rgb")
    assert given.preparation == found.preparation
    in_array = np.concatenate([np.arange(20)[::2], np.arange(20)[1::2]])  # of each file
    for side in SIDES:
        order = np.argsort(in_array[found.places[side]])
        assert np.array_equal(in_array[found.places[side]][order], given.places[side])
        assert np.array_equal(getattr(found, side).numbers[order], getattr(given, side).numbers)


def test_bad_wishes_and_bad_files_are_refused_in_a_line(tmp_path):
    digits = open_data("digits")
    assert "Choose one of gray, rgb" in refusal(image_sides, digits, mode="sepia")
    assert "0×8 is no size" in refusal(image_sides, digits, size=(0, 8))
    assert "no size for images" in refusal(image_sides, digits, size=(8, 10**9))
    preparation = image_sides(digits).preparation
    (tmp_path / "text.png").write_text("no picture")
    assert "text.png cannot be read: not a PNG" in refusal(preparation.pixels_of, [tmp_path / "text.png"])
    assert "there is no file" in refusal(preparation.pixels_of, [tmp_path / "gone.png"])
    assert "is a folder" in refusal(preparation.pixels_of, [tmp_path])
    os.mkfifo(tmp_path / "pipe.png")
    assert "is a pipe" in refusal(preparation.pixels_of, [tmp_path / "pipe.png"])
    with open(tmp_path / "huge.png", "wb") as file:
        file.truncate((256 << 20) + 1)
    assert "larger than 256 MB" in refusal(preparation.pixels_of, [tmp_path / "huge.png"])
    assert "the network reads 8×8 gray" in refusal(preparation.read, np.zeros((1, 9, 8), dtype=np.uint8))


# Pairs.


def test_pairs_are_divided_by_their_sources():
    data = open_data("dedupe-sort")
    sides = pair_sides(data)
    wanted = sides_of([source for source, _ in data.pairs])
    for number, side in enumerate(SIDES):
        assert sides.texts[side] == [pair for pair, one in zip(data.pairs, wanted, strict=True) if one == number]
        decoded = [tuple(map(sides.vocabulary.decode, pair)) for pair in getattr(sides, side)]
        assert decoded == sides.texts[side]
    assert sides.longest_source == max(len(source) for source, _ in data.pairs)
    assert sides.longest_target == max(len(target) for _, target in data.pairs)


def test_the_alphabet_is_that_of_both_and_boundary_is_0():
    sides = pair_sides(PairsData("some", [("ab", "xyz"), ("b", "é"), ("ab", "z")], because="", fingerprint=""))
    assert sides.vocabulary.tokens == ["·", "a", "b", "x", "y", "z", "é"]
    assert (sides.longest_source, sides.longest_target) == (2, 3)
    assert len(sides.train) + len(sides.dev) == 3
    assert len(sides.dev)
    assert "can spare none" in refusal(
        pair_sides, PairsData("some", [("a", "b"), ("a", "c")], because="", fingerprint="")
    )


# What is stored may come from anyone.

STORED = {
    "table": preparation_to_json(table_sides(cats_and_dogs(), "pet", leave_out=["born"]).preparation),
    "number": preparation_to_json(table_sides(open_data("penguins"), "body_mass_g").preparation),
    "row": preparation_to_json(table_sides(open_data("penguins"), "", task="reconstruction").preparation),
    "images": preparation_to_json(image_sides(open_data("digits")).preparation),
}
STRANGE = [
    None,
    [],
    {},
    "",
    "x",
    ["x", "x"],
    [None],
    [1.0],
    -1,
    0,
    2.5,
    True,
    math.nan,
    -math.inf,
    10**400,
    "\x1b[2J" * 99,
]


def paths(content, path=()):
    """Every place in a stored object."""
    yield path
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield from paths(content[key], (*path, key))


def with_strange(content, path, strange):
    """The content with something else at a place."""
    holder = {"content": copy.deepcopy(content)}
    place = holder
    for key in ("content", *path)[:-1]:
        place = place[key]
    place[("content", *path)[-1]] = strange
    return holder["content"]


def believed(content):
    """What is read, or the line of the refusal."""
    try:
        return preparation_from_json(content)
    except PellucidError as error:
        return str(error)


@pytest.mark.parametrize("name", STORED)
def test_whatever_is_wrong_in_what_was_stored_is_refused_in_a_line(name):
    everywhere = list(paths(STORED[name]))
    n_refused = 0
    for path in everywhere:
        for strange in STRANGE:
            content = with_strange(STORED[name], path, strange)
            found = believed(content)
            if isinstance(found, TablePreparation | ImagePreparation):
                assert preparation_to_json(found) == content  # what is believed is what was written
            else:
                assert found.startswith("the stored preparation is damaged")
                assert len(PREFIX + found) <= LONGEST_LINE
                n_refused += 1
    assert n_refused > len(STRANGE) / 2 * len(everywhere)


@pytest.mark.parametrize("name", STORED)
def test_a_key_too_few_or_too_many_is_refused(name):
    for key in STORED[name]:
        fewer = {other: value for other, value in STORED[name].items() if other != key}
        assert "damaged" in refusal(preparation_from_json, fewer)
    assert "damaged" in refusal(preparation_from_json, {**STORED[name], "more": 1})


def test_a_frame_of_polars_types_is_read_too(tmp_path):
    frame = polars.DataFrame({"flag": [True, False] * 40, "x": [float(i) for i in range(80)], "y": ["a", "b"] * 40})
    frame.write_parquet(tmp_path / "some.parquet")
    sides = table_sides(open_data(tmp_path / "some.parquet"), "y")
    assert sides.preparation.categories[0].values == ("false", "true")


def test_dates_become_numbers_and_new_rows_are_read_alike():
    """Sales are higher on Saturdays, and nothing but the date says so."""
    days = [datetime.date(2023, 1, 1) + datetime.timedelta(days=i) for i in range(300)]
    rows = [(f"{day:%Y/%m/%d}", i % 7 + 0.5, 10.5 + 5 * (day.isoweekday() == 6)) for i, day in enumerate(days)]
    sides = table_sides(csv("sold,x,y", rows), "y", split=SplitRequest("hash"))
    assert "sold is read as its month, day, weekday, day of year" in note_sentences(
        sides.notes
    )  # of one year, without hours
    assert sides.preparation.dates == ("sold",)
    assert sides.preparation.features == ("x", "sold (month)", "sold (day)", "sold (weekday)", "sold (day of year)")
    weekday = sides.train.numbers[:, 3]
    is_saturday = sides.train.targets > 0
    assert set(weekday[is_saturday]).isdisjoint(weekday[~is_saturday])
    kept = preparation_from_json(json.loads(json.dumps(preparation_to_json(sides.preparation))))
    assert kept == sides.preparation
    new = kept.read(csv("x,sold", [(0.5, "2023-07-01"), (0.5, "")]))
    assert new.numbers[0, 3] == weekday[is_saturday][0]
    assert new.numbers[1, 3] == 0  # missing: the mean
    assert not new.notes
    assert "has no column 'sold'" in refusal(kept.read, csv("x,z", [(0.5, "2023-07-01")] * 2))


def test_a_wide_table_is_read():
    """3,000 columns and 40 rows, as gene expression has; what is read is what stands there."""
    draw = np.random.default_rng(0)
    values = draw.normal(size=(40, 3000)).round(3)
    rows = [[*row.tolist(), "ab"[place % 2]] for place, row in enumerate(values)]
    sides = table_sides(csv(",".join([*(f"g{i}" for i in range(3000)), "y"]), rows), "y")
    assert sides.train.numbers.shape[1] == 3000
    column = values[:, 7]
    train = column[sides.places["train"]]
    assert np.allclose(sides.dev.numbers[:, 7], (column[sides.places["dev"]] - train.mean()) / train.std(), atol=1e-5)


def test_whole_numbers_that_name_are_categories_too_and_those_that_measure_are_not():
    draw = np.random.default_rng(2)
    school, age = draw.integers(0, 40, 1_600), draw.integers(20, 60, 1_600)
    score = draw.normal(size=40)[school] + 0.1 * age + draw.normal(size=1_600)
    frame = polars.DataFrame({"school": school, "age": age, "score": score})
    table = read_memory(frame, kind="table")
    sides = table_sides(table, "score", split=SplitRequest(strategy="hash"))
    assert sides.preparation.named == ("school",)
    assert [column.name for column in sides.preparation.numeric] == ["school", "age"]
    assert [column.name for column in sides.preparation.categories] == ["school (value)"]
    assert any("the order of school tells little" in note for note in note_sentences(sides.notes))
    again = preparation_from_json(preparation_to_json(sides.preparation))
    new = again.read(read_memory(frame.head(5), kind="table", fewest_rows=1))
    np.testing.assert_array_equal(
        new.codes[:, 0] - 1, [sorted(map(str, range(40))).index(str(one)) for one in school[:5]]
    )
