"""The sets that come with pellucid: each is what its card says, from its seed, on every machine."""

import importlib
import pkgutil
import subprocess
import sys
from collections import Counter

import numpy
import pytest

import pellucid.data.sets
from pellucid.data import ListData, PairsData, PixelsData, TableData, TextData, datasets, open_data
from pellucid.data.prepare import pair_sides
from pellucid.data.sets import (
    copy_back,
    dedupe_sort,
    digits,
    house_numbers,
    incomes,
    moons,
    names,
    penguins,
    polynomial,
    transactions,
    xor,
)
from pellucid.errors import PellucidError

GENERATED = [name for name, card in datasets().items() if card.is_generated]


def test_every_file_carries_one_card():
    files = {module.name for module in pkgutil.iter_modules(pellucid.data.sets.__path__)}
    carried = {importlib.import_module(f"pellucid.data.sets.{name}").DATASET.name.replace("-", "_") for name in files}
    assert carried == files
    assert set(datasets()) == {
        "names", "penguins", "digits", "manual", "house-numbers", "transactions", "moons", "xor", "polynomial",
        "dedupe-sort", "copy-back", "reverse", "identity", "incomes", "tones",
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in datasets() if name != "transactions"])
def test_every_set_opens_by_its_name(name):
    card, data = datasets()[name], open_data(name)
    assert data.kind == card.kind
    assert data.name == name
    assert data.description.startswith(f"{name}: ")
    assert len(data.fingerprint) == 64
    assert len(data) > 0
    assert all([card.summary, card.source, card.licence])
    assert data.fingerprint == card.load().fingerprint


@pytest.mark.parametrize("name", GENERATED)
def test_a_generator_is_a_function_of_its_seed(name):
    load = datasets()[name].load
    n = {"xor": 4}.get(name, 50)
    options = {"noise": 0.1} if name == "xor" else {}
    assert load(seed=3, n=n, **options).fingerprint == load(seed=3, n=n, **options).fingerprint
    assert load(seed=3, n=n, **options).fingerprint != load(seed=4, n=n, **options).fingerprint
    with pytest.raises(PellucidError):
        load(seed=3, n=0)


@pytest.mark.parametrize("name", GENERATED)
def test_a_longer_set_begins_with_the_shorter_one(name):
    load = datasets()[name].load
    short, long = load(seed=5, n=20), load(seed=5, n=60)
    if isinstance(short, TableData):
        assert long.frame.head(20).equals(short.frame)
    elif isinstance(short, PairsData):
        assert long.pairs[:20] == short.pairs
    else:
        assert (long.pixels[:20] == short.pixels).all()


def test_listing_the_sets_loads_nothing_heavy():
    code = (
        "import sys\nfrom pellucid.data import datasets\ndatasets()\n"
        "print([n for n in ('torch', 'numpy', 'polars', 'PIL', 'sklearn', 'tokenizers') if n in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert run.stdout == "[]\n"


def test_names_are_thirty_thousand_and_nan_and_true_are_among_them():
    data = open_data("names")
    assert isinstance(data, ListData)
    assert len(data.items) == len(set(data.items)) == 30_000
    assert {"nan", "true"} <= set(data.items)
    assert data.items[:3] == ["james", "john", "robert"]
    assert all(item.isascii() and item.isalpha() and item.islower() for item in data.items)
    rows = names.births()
    assert [row.name for row in rows] == data.items
    assert rows[0] == ("james", 23_215, 5_120_990)
    assert min(row.female + row.male for row in rows) == 148
    table = open_data("names", kind="table")
    assert {"nan", "true"} <= set(table.frame["name"].to_list())
    assert table.frame.null_count().row(0) == (0, 0, 0)


def test_names_written_as_csv_are_read_back_with_nan_and_true(tmp_path):
    table = open_data("names", kind="table")
    table.frame.write_csv(tmp_path / "names.csv")
    again = open_data(tmp_path / "names.csv")
    assert again.frame.equals(table.frame)
    (tmp_path / "names.txt").write_text("\n".join(open_data("names").items) + "\n")
    assert open_data(tmp_path / "names.txt").items == open_data("names").items


def test_penguins():
    data = penguins.load()
    assert (data.frame.height, data.frame.width) == (344, 8)
    assert Counter(data.frame["species"]) == {"Adelie": 152, "Gentoo": 124, "Chinstrap": 68}
    missing = {column.name: column.n_missing for column in data.columns if column.n_missing}
    assert missing == {"bill_length_mm": 2, "bill_depth_mm": 2, "flipper_length_mm": 2, "body_mass_g": 2, "sex": 11}
    kinds = {column.name: column.kind for column in data.columns}
    assert (kinds["island"], kinds["body_mass_g"]) == ("category", "numeric")
    assert "Gorman" in penguins.DATASET.source


def test_digits_are_scikit_learns():
    from sklearn.datasets import load_digits

    data, theirs = digits.load(), load_digits()
    assert isinstance(data, PixelsData)
    assert data.pixels.shape == (1797, 8, 8)
    assert (data.pixels == numpy.rint(theirs.images * 255 / 16)).all()
    assert (data.labels == theirs.target).all()
    assert open_data("digits", kind="table").frame.shape == (1797, 65)


def test_the_manual_is_running_text():
    data = open_data("manual")
    assert isinstance(data, TextData)
    assert len(data) > 300_000
    assert data.read().startswith('The "assert" statement') or "assert" in data.read()[:300]
    assert len(data.read()) == len(data)


def test_house_numbers():
    data = house_numbers.load(seed=1, n=300)
    assert (data.pixels.shape, data.pixels.dtype) == ((300, 32, 32), numpy.uint8)
    assert set(data.labels.tolist()) == set(range(10))
    assert data.pixels.std(axis=(1, 2)).min() > 3  # there is something to see on each
    middle = data.pixels[:, 8:24, 12:20].astype(float)
    assert middle.std(axis=(1, 2)).mean() > 15
    # The edges are not empty: neighbours reach in.
    left = data.pixels[:, 6:26, :4].astype(float)
    assert left.std(axis=(1, 2)).mean() > 8


def test_house_numbers_can_be_told_apart_but_not_by_a_glance():
    from sklearn.linear_model import RidgeClassifier

    data = house_numbers.load(seed=2, n=900)
    flat = data.pixels.reshape(900, -1).astype(float)
    flat = numpy.abs(flat - numpy.median(flat, axis=1, keepdims=True))
    flat /= flat.std(axis=1, keepdims=True)
    model = RidgeClassifier(alpha=3000.0).fit(flat[:700], data.labels[:700])
    right = model.score(flat[700:], data.labels[700:])
    assert 0.2 < right < 0.95  # chance is 0.1, four standard errors of which are 0.085


def test_transactions_have_the_form_of_the_exercise():
    data = transactions.load(n=200_000)
    assert data.frame.columns == ["seq_no", "loyalty_tier", "items_scanned"]
    assert data.frame["seq_no"].to_list() == list(range(1, 200_001))
    items = data.frame["items_scanned"].to_numpy()
    assert items.min() >= 1
    assert items.mean() > 1.3 * numpy.median(items)  # a heavy right tail pulls the mean away from the median
    assert (items >= 500).any()
    top = numpy.sort(items)[-2000:]
    assert 0.05 < top.sum() / items.sum() < 0.5
    assert set(data.frame["loyalty_tier"]) == set(transactions.TIERS)


def test_transactions_drift_from_the_millionth_on():
    calm, drifting = transactions.load(n=1_200_000), transactions.load(n=1_200_000, drift=True)
    assert len(calm) == 1_200_000
    assert drifting.frame[:999_999].equals(calm.frame[:999_999])
    before, after = drifting.frame[:999_999], drifting.frame[999_999:]
    assert after["items_scanned"].median() > 1.2 * before["items_scanned"].median()
    share = [(part["loyalty_tier"] == "none").mean() for part in (before, after)]
    assert share[0] == pytest.approx(0.55, abs=0.01)
    assert share[1] == pytest.approx(0.25, abs=0.01)
    assert transactions.ROWS == 1_700_000


def test_incomes_part_the_mean_from_the_median():
    frame = incomes.load().frame
    assert frame.shape == (1000, 2)
    earned, owned = (frame.filter(frame["role"] == role)["income"] for role in ("employee", "owner"))
    assert 5 <= len(owned) <= 40  # 20 expected, deviation 4.4
    # The median of a log-normal is spread by 1.25 · 0.45 / sqrt(980) = 1.8 %.
    assert earned.median() == pytest.approx(incomes.MEDIAN_INCOME, rel=0.08)
    assert owned.min() >= incomes.SMALLEST_OF_OWNERS
    assert frame["income"].mean() > 1.2 * frame["income"].median()
    many = incomes.load(n=300_000).frame
    owned = many.filter(many["role"] == "owner")["income"].to_numpy()
    # Maximum likelihood of a Pareto's index, whose deviation is 1.3 / sqrt(6000) = 0.017.
    assert 1 / numpy.log(owned / incomes.SMALLEST_OF_OWNERS).mean() == pytest.approx(incomes.TAIL_INDEX, abs=0.08)


def test_moons_and_xor_and_the_polynomial():
    points = moons.load(n=1000, noise=0.0).frame
    upper = points.filter(points["moon"] == "upper")
    assert numpy.allclose(upper["x"].to_numpy() ** 2 + upper["y"].to_numpy() ** 2, 1)
    lower = points.filter(points["moon"] == "lower")
    assert numpy.allclose((lower["x"].to_numpy() - 1) ** 2 + (lower["y"].to_numpy() - 0.5) ** 2, 1)
    assert [row[2] for row in xor.load(n=8).frame.rows()] == [0, 1, 1, 0] * 2
    table = polynomial.load(n=50, n_inputs=3).frame
    x = table.select("x1", "x2", "x3").to_numpy()
    assert numpy.allclose(table["y"].to_numpy(), (x**3 + 3 * x**2 + 3).sum(axis=1))


def test_dedupe_sort():
    data = dedupe_sort.load(n=500)
    assert len(set(data.pairs)) == 500
    for source, target in data.pairs:
        assert target == "".join(sorted(set(source)))
    assert {len(source) for source, _ in data.pairs} == {1, 2, 3, 4, 5, 6}
    with pytest.raises(PellucidError, match="different sources cannot be drawn from"):
        dedupe_sort.load(n=5000)


@pytest.mark.parametrize("name", ["identity", "reverse"])
def test_identity_and_reverse(name):
    data = open_data(f"{name}:n=500")
    assert isinstance(data, PairsData)
    assert len(set(data.pairs)) == 500
    for source, target in data.pairs:
        assert [*target] == ([*source] if name == "identity" else [*reversed(source)])
    assert {len(source) for source, _ in data.pairs} == set(range(1, 9))
    fixed = open_data(f"{name}:n=50,n_symbols=3,shortest=30,longest=30")
    assert {len(source) for source, _ in fixed.pairs} == {30}
    assert {*"".join(source for source, _ in fixed.pairs)} == {*"ABC"}
    # As changes of their sources, long targets that begin as these do would be nothing to learn.
    assert pair_sides(fixed).vocabulary.kind == "characters"
    assert pair_sides(fixed, "changes").vocabulary.kind == "letters-to-changes"


def test_copy_back():
    data = open_data("copy-back:n=300,k=2,length=7,n_symbols=5")
    assert len({source for source, _ in data.pairs}) == 300
    for source, target in data.pairs:
        assert len(source) == len(target) == 7
        assert [*target] == [source[place - 2] if place >= 2 else "-" for place in range(7)]
    assert copy_back.NOTHING not in "".join(source for source, _ in data.pairs)


def test_copy_back_as_a_list_can_be_told_but_for_the_first_k():
    """The best loss there is, by the chances of the rule itself: 1 in n_symbols for each of the first k, else 1."""
    k, n_symbols, length = 3, 8, 9
    data = open_data(f"copy-back:n=200,k={k},n_symbols={n_symbols},length={length}", kind="list")
    assert isinstance(data, ListData)
    assert len(set(data.items)) == 200
    nats = 0.0
    for item in data.items:
        assert len(item) == length
        for place in range(length):
            could_be = set("ABCDEFGH") if place < k else {item[place - k]}
            assert item[place] in could_be
            nats += numpy.log(len(could_be))
    n_tokens = len(data.items) * (length + 1)
    assert nats / n_tokens == pytest.approx(k * numpy.log(n_symbols) / (length + 1))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("copy-back:k=0", "none stands 0 places before another"),
        ("copy-back:k=12", "Choose k from 1 to length - 1"),
        ("copy-back:k=2,length=2000", "at most 1,000"),
        ("reverse:n_symbols=27", "27 symbols cannot be used"),
        ("reverse:shortest=5,longest=4", "sequences of 5 to 4 symbols"),
        ("identity:longest=999999999", "lengths from 1 to 1,000"),
        ("identity:n=100,n_symbols=2,longest=4", "Ask for 1 to 15"),
    ],
)
def test_sequences_that_cannot_be_drawn_are_refused(source, said):
    with pytest.raises(PellucidError, match=said):
        open_data(source)
