"""Networks at several sizes of the training side, with several seeds: what differs between them, and the intervals."""

import json

import numpy as np
import pytest
from scipy import stats

from pellucid.api.train import compare
from pellucid.data import open_data
from pellucid.data.options import DataOptions
from pellucid.data.prepare import image_sides
from pellucid.errors import PellucidError
from pellucid.figures.drawings.accuracy_by_size import draw_accuracy_by_size
from pellucid.figures.show import record_text
from pellucid.records import SizeRung
from pellucid.records.intervals import student_factor
from pellucid.runs import open_run
from pellucid.training.comparison import size_intervals, size_ladder_of

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Logistic regression on 40 and 200 of 200 digits, three times each."""
    folder = tmp_path_factory.mktemp("sizes")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        n_train = len(image_sides(open_data("digits:n=250")).train)
        found = compare(
            "digits:n=250", models=["logistic"], sizes=[40, n_train], seeds=3, steps=6, threads=1, name="three"
        )
    return found.record, folder / "runs" / "three", n_train


def test_each_seed_has_its_own_examples_and_its_own_first_weights(compared):
    ladder, folder, n_train = compared
    runs = {path.name: open_run(path) for path in folder.iterdir() if path.is_dir()}
    assert set(runs) == {f"logistic-{n}-{seed}" for n in (40, n_train) for seed in (1, 2, 3)}
    read = {name: (run.record["seed"], run.record["reading"]["examples_seed"]) for name, run in runs.items()}
    assert read == {
        f"logistic-{n}-{place + 1}": (1 + place, place if n == 40 else 0) for n in (40, n_train) for place in range(3)
    }
    kept = [set(np.fromfile(runs[f"logistic-40-{seed}"].path / "trained-on.bin", "<u8")) for seed in (1, 2, 3)]
    assert len({frozenset(one) for one in kept}) == 3
    assert "--examples-seed" in runs["logistic-40-2"].record["command"]
    simple = [rung for rung in ladder.rungs if rung.name == "nearest centroid"]
    assert [rung.n_train for rung in simple] == [40, 40, 40, n_train]  # of all examples it is the same again


def test_intervals_are_those_of_student(compared):
    ladder, folder, _ = compared
    assert ladder.intervals
    for one in ladder.intervals:
        values = [rung.metric for rung in ladder.rungs if (rung.name, rung.n_train) == (one.name, one.n_train)]
        low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
        assert (one.low, one.high) == pytest.approx((max(0, low), min(1, high)), rel=1e-3)
        assert one.trainings == len(values) == 3
    assert size_ladder_of(folder) == ladder
    for freedom in (1, 2, 3, 5, 30):
        assert student_factor(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=2.5e-3)


def test_they_are_told_and_drawn(compared):
    ladder, folder, _ = compared
    one = next(one for one in ladder.intervals if one.name == "logistic" and one.low > 0)
    said = " ".join(record_text(ladder).split())
    assert f"({100 * one.low:.2f} to {100 * one.high:.2f})" in said
    assert "95 % intervals of the means" in said
    assert draw_accuracy_by_size(ladder).svg.count("95 % interval of the mean") == len(ladder.intervals)
    assert (folder / "accuracy-by-size.svg").is_file()
    assert len(json.loads((folder / "sizes.json").read_text())["intervals"]) == len(ladder.intervals)


def test_equal_trainings_and_single_ones_have_no_interval():
    def rungs(*metrics):
        return [SizeRung("cnn", 100, metric, None, 1.0, 9, False) for metric in metrics]

    assert size_intervals(rungs(0.9)) == size_intervals(rungs(0.9, 0.9, 0.9)) == ()
    (shares,) = size_intervals(rungs(0.9, 1.0))
    assert (shares.low, shares.high) == (pytest.approx(0.95 - 12.7062 * 0.05, abs=1e-4), 1.0)
    (numbers,) = size_intervals(rungs(0.9, 1.0), is_share=False)
    assert numbers.high > 1


def test_other_seeds_draw_other_examples_and_of_each_fewer_are_among_more():
    sides = image_sides(open_data("digits:n=250"))
    few, more, others = sides.limited(20, seed=1), sides.limited(60, seed=1), sides.limited(60, seed=2)
    assert set(few.places["train"]) < set(more.places["train"])
    assert set(more.places["train"]) != set(others.places["train"])
    assert np.array_equal(sides.limited(60).places["train"], sides.limited(60, seed=0).places["train"])


def test_what_cannot_be_is_refused():
    for asked, says in (
        ({"seeds": 0}, "seeds"),
        ({"seeds": 21}, "from 1 to 20"),
    ):
        with pytest.raises(PellucidError, match=says):
            compare("digits:n=250", models=["logistic"], steps=1, **asked)
    with pytest.raises(PellucidError, match="several sizes"):
        compare("penguins", target="species", models=["logistic"], steps=1, seeds=2)
    with pytest.raises(PellucidError, match="too small to hold any out"):
        compare("xor", models=["logistic"], steps=1, sizes=[4])
    with pytest.raises(PellucidError, match="all of them are"):
        DataOptions("digits", examples_seed=3)
