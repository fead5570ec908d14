"""What networks answered about rows, images and pairs: every number that is shown is the record's, on every surface."""

import base64
import io
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import binomtest
from tests.tiny_records import ANSWERING, TINY, TINY_IMAGES, TINY_PAIRS, TINY_RECONSTRUCTION, TINY_ROWS, TINY_RUN

from pellucid.errors import PellucidError
from pellucid.figures.drawings.accuracy_by_size import draw_accuracy_by_size
from pellucid.figures.drawings.calibration import draw_calibration, wilson_interval
from pellucid.figures.drawings.confusion import draw_confusion
from pellucid.figures.drawings.ladder import draw_ladder
from pellucid.figures.drawings.latent import classes_of, draw_latent
from pellucid.figures.drawings.loss_curves import draw_loss_curves
from pellucid.figures.drawings.mistakes import draw_mistakes, framed_image
from pellucid.figures.drawings.reconstructions import draw_reconstructions
from pellucid.figures.drawings.regression import draw_regression
from pellucid.figures.picture import all_figures
from pellucid.figures.progress import ProgressLine
from pellucid.figures.show import record_json, show
from pellucid.figures.tables import show_parts
from pellucid.figures.words.answers import MOST_PREDICTED, class_mistakes, confusion_words
from pellucid.figures.words.counting import novelty_parts
from pellucid.figures.words.ladder import baseline_table, rank_rungs, results_by_size
from pellucid.figures.words.notation import metric_words, percent
from pellucid.figures.words.training import data_lines, loss_picture
from pellucid.records import (
    AnsweredExample,
    ConfidenceBin,
    Confusion,
    Evaluation,
    LatentPoint,
    Prediction,
    Predictions,
    Sample,
    SampledAt,
    SizeRung,
    Step,
    TrainingReport,
    as_plain,
    make_note,
)
from pellucid.records.plain import from_plain

HOSTILE = "[/b]\x1b[2J<img src=x>"


def titles(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).findall(".//{*}title")]


def words_of(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).findall(".//{*}text")]


def dots(svg: str) -> dict[str, tuple[float, float]]:
    """The place of every dot by its words."""
    found = re.findall(r'<circle cx="([\d.-]+)" cy="([\d.-]+)"[^>]*><title>([^<]*)</title>', svg)
    return {words: (float(x), float(y)) for x, y, words in found}


# The tiny runs are what they say


def test_the_metrics_of_the_tiny_runs_are_those_of_their_answers():
    images = TINY_IMAGES.answers
    counts = images.confusion.counts
    assert sum(map(sum, counts)) == images.n
    assert sum(row[i] for i, row in enumerate(counts)) / images.n == images.metrics["accuracy"]
    bins = [each for each in images.calibration.bins if each.n]
    assert sum(each.n for each in bins) == images.n
    assert sum(each.n * each.share_right for each in bins) / images.n == pytest.approx(images.metrics["accuracy"])
    error = sum(each.n * abs(each.confidence - each.share_right) for each in bins) / images.n
    assert images.calibration.error == pytest.approx(error)

    rows = TINY_ROWS.answers
    mean = sum(truth for truth, _ in rows.points) / rows.n
    left = sum((truth - answer) ** 2 for truth, answer in rows.points)
    whole = sum((truth - mean) ** 2 for truth, _ in rows.points)
    assert rows.metrics["R²"] == pytest.approx(1 - left / whole)
    assert rows.metrics["MAE"] == sum(abs(truth - answer) for truth, answer in rows.points) / rows.n

    pairs = TINY_PAIRS.answers
    assert pairs.metrics["exact match"] == sum(each.truth == each.answer for each in pairs.examples) / pairs.n
    assert all(each.is_right == (each.truth == each.answer) for each in pairs.examples)
    right = sum(a == b for each in pairs.examples for a, b in zip(each.truth + "·", each.answer + "·", strict=True))
    n_tokens = sum(len(each.truth) + 1 for each in pairs.examples)
    assert TINY_PAIRS.data.n_tokens["dev"] == n_tokens
    assert pairs.metrics["tokens right"] == right / n_tokens

    for run in ANSWERING:
        own = run.ladder.rungs[0]
        assert own.metric == run.answers.metrics[run.ladder.measure.metric]
        assert own.test_metric == run.answers.test_metrics[run.ladder.measure.metric]
        assert run.evaluations[-1].dev == own.dev


@pytest.mark.parametrize("run", ANSWERING, ids=lambda run: run.name)
def test_such_a_run_survives_json(run):
    again = from_plain(TrainingReport, json.loads(json.dumps(as_plain(run), allow_nan=False)))
    assert again.answers.examples == run.answers.examples
    assert as_plain(again) == as_plain(run)


# Words


LADDERS = {
    "tiny-images": """\
model             dev accuracy     test  dev nats   train  parameters  seconds  images/s  over simple models
cnn                    80.00 %  87.50 %    0.4800  0.4200       1,450      0.1       900       +10.00 points
nearest centroid       70.00 %  62.50 %      none    none         192      0.0
majority class         40.00 %  37.50 %    1.0900  1.0800           3      0.0                 −30.00 points

The best network, cnn, earns 10.00 points of accuracy over simple models, of which nearest centroid is the best.
""",
    "tiny-rows": """\
model               dev R²     test  dev squared error   train  parameters  seconds  rows/s  over simple models
mlp                 0.9880   0.7000             0.0120  0.0100          45      0.1     400             +0.0880
linear regression   0.9000   0.6500             0.1000  0.0900           4      0.0
mean               −0.0200  −0.0500             1.0200  1.0000           1      0.0                     −0.9200

The best network, mlp, earns 0.0880 of R² over simple models, of which linear regression is the best.
""",
    "tiny-pairs": """\
model            dev exact match     test  dev nats   train  parameters  seconds  tokens/s  over simple models
encoder-decoder          75.00 %  83.33 %    0.1400  0.1000       3,200      0.1       600       +50.00 points
copying                  25.00 %  16.67 %      none    none           0      0.0

The best network, encoder-decoder, earns 50.00 points of exact match over simple models, of which copying is the best.
""",
    "tiny-reconstruction": """\
model             dev R²     test  dev squared error   train  parameters  seconds  images/s  over simple models
autoencoder       0.6400   0.6000             0.3600  0.3000         900      0.1       700             +0.1400
2 principal axes  0.5000   0.4800             0.5000  0.4500         192      0.0
mean              0.0000  −0.0200             1.0000  1.0000          64      0.0                       −0.5000

The best network, autoencoder, earns 0.1400 of R² over simple models, of which 2 principal axes is the best.
""",
}


@pytest.mark.parametrize("run", ANSWERING, ids=lambda run: run.name)
def test_the_ladder_is_written_by_its_measure(run, capsys):
    show(run.ladder)
    assert capsys.readouterr().out == f"{run.ladder.source}\n\n{LADDERS[run.name]}"
    plain = json.loads(record_json(run.ladder))
    assert plain["measure"] == run.ladder.measure._asdict()
    assert plain["rungs"][0]["gap"] == pytest.approx(run.ladder.rungs[0].metric - run.ladder.rungs[1].metric)


def test_rungs_are_ranked_by_merit_and_not_by_loss():
    cnn, centroid, majority = TINY_IMAGES.ladder.rungs
    lost = centroid._replace(name="lost", metric=None)
    sure = cnn._replace(name="sure", dev=0.1, metric=0.5)
    even = cnn._replace(name="even", dev=0.3)
    ladder = TINY_IMAGES.ladder._replace(rungs=(lost, majority, sure, centroid, cnn, even))
    assert [rung.name for rung in rank_rungs(ladder)] == [
        "even",
        "cnn",
        "nearest centroid",
        "sure",
        "majority class",
        "lost",
    ]
    behind = TINY_IMAGES.ladder._replace(rungs=(centroid, sure))
    assert "is 20.00 points of accuracy below nearest centroid" in draw_ladder(behind).caption[1]


def test_a_network_behind_the_simple_models_is_said_to_be(capsys):
    cnn, *simple = TINY_IMAGES.ladder.rungs
    show(TINY_IMAGES.ladder._replace(rungs=(cnn._replace(metric=0.6), *simple)))
    assert "The best network, cnn, is 10.00 points of accuracy behind simple models" in capsys.readouterr().out


@given(st.floats(0, 1))
def test_a_share_is_never_rounded_to_all_or_nothing(share):
    written = percent(share)
    assert (written == "100 %") == (share == 1)
    assert (written == "0 %") == (share == 0)
    assert abs(float(written.removeprefix("under ").removesuffix(" %")) - 100 * share) <= 0.0101


DATA_LINES = {
    "tiny-images": [
        "digits: 40 images of 3 classes",
        "train 22 images; dev 10 images; test 8 images",
        "reads gray images of 8 × 8 pixels, standardised by train",
        "predicts digit, one of 3 classes (1, 2, 7); guessing is right in 33.33 % and costs ln 3 = 1.0986 nats",
    ],
    "tiny-rows": [
        "penguins: a table of 20 rows and 4 columns",
        "train 12 rows; dev 4 rows; test 4 rows",
        "reads 2 numbers, standardised by train",
        "reads 1 category (species)",
        "predicts body_mass, a number; R² is 0 for always saying their mean",
    ],
    "tiny-pairs": [
        "dedupe-sort: 40 pairs",
        "train 30 pairs, 110 tokens; dev 4 pairs, 14 tokens; test 6 pairs, 21 tokens",
        "reads sources of up to 4 tokens, targets of up to 3",
        "4 symbols (characters); guessing costs ln 4 = 1.3863 nats a token",
    ],
    "tiny-reconstruction": [
        "digits: 40 images of 3 classes",
        "train 22 images; dev 10 images; test 8 images",
        "reads gray images of 8 × 8 pixels, standardised by train",
        "gives back what it read, through a narrow place; R² is 0 for always giving the mean",
    ],
}


@pytest.mark.parametrize("run", ANSWERING, ids=lambda run: run.name)
def test_what_is_read_and_predicted_is_told_first(run):
    assert data_lines(run.data) == DATA_LINES[run.name]


def test_simple_models_are_told_with_their_metric(capsys):
    show_parts([baseline_table(TINY_IMAGES.ladder._replace(rungs=TINY_IMAGES.ladder.rungs[1:]))])
    assert capsys.readouterr().out == (
        "simple models     dev accuracy  dev nats  numbers kept\n"
        "nearest centroid       70.00 %      none           192\n"
        "majority class         40.00 %    1.0900             3\n"
    )


def test_the_report_of_images_in_a_terminal(capsys):
    show(TINY_IMAGES)
    lines = capsys.readouterr().out.splitlines()
    matrix = lines.index("true \\ answer  1  2  7    found")
    assert lines[matrix + 1 : matrix + 4] == [
        "1              3  ·  1  75.00 %",
        "2              ·  3  ·    100 %",
        "7              1  ·  2  66.67 %",
    ]
    assert "on dev, 10 images: accuracy 80.00 %, log loss 0.4800" in lines
    assert "on test, read once: accuracy 87.50 %, log loss 0.5000" in lines
    assert "image 17  7      1            0.7100  wrong" in lines
    assert "image 21  2      2            0.9700" in lines
    assert lines[-2:] == ["  pellucid predict tiny-images FILE", "  runs/tiny-images/report.html"]
    assert not any("sample" in line or "score" in line for line in lines)


def test_numbers_are_neither_right_nor_wrong_and_errors_have_a_unit(capsys):
    show(TINY_ROWS)
    said = capsys.readouterr().out
    assert "on dev, 4 rows: R² 0.9880, MAE 75 (in units of body_mass)" in said
    assert "1 cell of dev and test held a category that train does not have" in said
    assert "wrong" not in said
    assert "linear regression 0.1000" in said  # the rule across the picture of the loss


def test_a_simple_model_without_a_loss_is_no_rule_across_the_picture():
    assert not any("nearest centroid" in line for line in loss_picture(TINY_IMAGES))
    # Without a rule the picture begins with the loss before the first step.
    assert loss_picture(TINY_IMAGES)[0].split()[0] == "1.12"


def test_the_json_of_a_run_has_its_answers():
    document = json.loads(record_json(TINY_IMAGES))
    assert document["answers"]["confusion"]["counts"] == [[3, 0, 1], [0, 3, 0], [1, 0, 2]]
    assert document["answers"]["calibration"]["bins"][0]["confidence"] == "nan"
    assert json.loads(record_json(TINY_RUN))["answers"] is None


def test_nothing_of_the_data_is_markup_or_moves_the_cursor(capsys):
    answers = TINY_IMAGES.answers
    hostile = replace(
        TINY_IMAGES,
        data=TINY_IMAGES.data._replace(target=HOSTILE, symbols=(HOSTILE,) * 3, about=(HOSTILE,)),
        answers=answers._replace(
            confusion=answers.confusion._replace(classes=(HOSTILE,) * 3),
            examples=(AnsweredExample(HOSTILE, HOSTILE, HOSTILE, 0.5, False),),
        ),
    )
    show(hostile)
    print("\n".join(data_lines(hostile.data)))
    predictions = Predictions(HOSTILE, "cnn", HOSTILE, "classification", (Prediction(HOSTILE, HOSTILE, 0.5),))
    show(predictions)
    show(TINY["accuracy-by-size"]._replace(source=HOSTILE, notes=(make_note("data-changed", name=HOSTILE),)))
    show_parts(novelty_parts((Sample(HOSTILE, 1.0, 3, "new", HOSTILE, 1, HOSTILE),)))
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "[/b]\\x1b[2J" in said


def test_the_progress_of_images_tells_images_and_answers():
    stream = io.StringIO()
    line = ProgressLine(TINY_IMAGES.plan._replace(steps=2), stream, TINY_IMAGES.ladder.measure)
    line.evaluation(Evaluation(0, 1.1, 1.12))
    line.step(Step(1, 1.0, 2, 0.01, 1.0), 1234.0, 1.0)
    line.samples(SampledAt(1, ("Chinstrap → Gentoo (0.71)", "3 → 5 (0.71)")))
    assert stream.getvalue().splitlines() == [
        "step 1 of 2 (50 %)  loss 1.0000  dev 1.1200  1,234 images/s  1.0 s left",
        "step 1 answers: Chinstrap → Gentoo (0.71), 3 → 5 (0.71)",
    ]


# Predictions


def test_predictions_in_a_terminal(capsys):
    new = (make_note("written", sentence="island Dream is new"),)
    predictions = Predictions(
        "flowers",
        "mlp",
        "species",
        "classification",
        (
            Prediction("row 1", "setosa", 0.97, (("setosa", 0.97), ("virginica", 0.02))),
            Prediction("row 2", "virginica", 0.6, (("virginica", 0.6), ("setosa", 0.4)), new),
            Prediction("row 3", "virginica", 0.6, (("virginica", 0.6),), new),
        ),
        (make_note("written", sentence="2 columns are not read"),),
    )
    show(predictions)
    assert capsys.readouterr().out == (
        "mlp of the run flowers predicts species\n\n"
        "       species    probability  or\n"
        "row 1  setosa          0.9700  virginica 0.0200\n"
        "row 2  virginica       0.6000  setosa 0.4000\n"
        "row 3  virginica       0.6000\n\n"
        "note: 2 columns are not read\n"
        "note: row 2 and 1 more: island Dream is new\n"
    )
    assert json.loads(record_json(predictions))["predictions"][0]["ranked"] == [
        ["setosa", 0.97],
        ["virginica", 0.02],
    ]


def test_predicted_numbers_have_no_probability_and_many_rows_are_cut(capsys):
    rows = tuple(Prediction(f"row {i}", f"{i}.5", None) for i in range(MOST_PREDICTED + 7))
    show(Predictions("mass", "mlp", "body_mass", "regression", rows))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["body_mass"]
    assert lines[3].split() == ["row", "0", "0.5"]
    assert lines[-1] == "and 7 more; --json tells them all"
    assert len(json.loads(record_json(Predictions("m", "mlp", "y", "regression", rows)))["predictions"]) == len(rows)


# Sizes


def test_the_sizes_in_a_terminal(capsys):
    show(TINY["accuracy-by-size"])
    assert capsys.readouterr().out == (
        "digits\n\n"
        "accuracy on dev        100       400     test  parameters  seconds\n"
        "cnn               91.00 %*  96.50 %*  95.00 %       3,700      6.0\n"
        "vit                80.00 %   95.00 %  94.00 %      26,000      8.0\n"
        "nearest centroid   86.00 %   89.00 %  88.00 %         640      0.0\n"
        "* the best of this size; test, parameters and seconds are those with the most examples\n"
        "Means of up to 2 trainings, which lie at most 2.00 points of accuracy apart.\n\n"
        "With 100 examples cnn is the best network with 91.00 %, then vit with 80.00 %.\n"
        "With 400 examples cnn is the best network with 96.50 %, then vit with 95.00 %.\n"
    )
    assert len(json.loads(record_json(TINY["accuracy-by-size"]))["rungs"]) == len(TINY["accuracy-by-size"].rungs)


def test_the_dots_of_sizes_stand_on_a_logarithmic_axis():
    rungs = tuple(SizeRung("cnn", n, 0.1 * i, None, 1.0, 9, False) for i, n in enumerate((10, 100, 1000), start=1))
    svg = draw_accuracy_by_size(TINY["accuracy-by-size"]._replace(sizes=(10, 100, 1000), rungs=rungs)).svg
    (x0, y0), (x1, y1), (x2, y2) = dots(svg).values()
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y0 > y1
    assert {"10", "100", "1,000", "cnn 30.00 %"} <= set(words_of(svg))


def test_several_trainings_are_a_mean_with_their_spread():
    first, _ = results_by_size(TINY["accuracy-by-size"], "cnn")
    assert (first.mean, first.low, first.high, first.trainings) == pytest.approx((0.91, 0.90, 0.92, 2))
    svg = draw_accuracy_by_size(TINY["accuracy-by-size"]).svg
    assert svg.count("from the worst to the best training") == 2
    assert "cnn, 400 examples: 96.50 %, mean of 2 trainings" in dots(svg)
    with pytest.raises(PellucidError, match="nothing was compared"):
        draw_accuracy_by_size(TINY["accuracy-by-size"]._replace(rungs=()))


# Pictures


OF_ANSWERS = ["confusion", "calibration", "importances", "mistakes", "regression", "reconstructions", "latent"]


@pytest.mark.parametrize("name", OF_ANSWERS)
def test_a_run_without_such_answers_is_refused_in_one_line(name):
    with pytest.raises(PellucidError) as caught:
        all_figures()[name].draw(TINY_RUN)
    assert "\n" not in str(caught.value)
    assert "tiny" in str(caught.value)
    assert caught.value.fix.startswith("Draw ")


def test_every_cell_of_the_confusion_is_told():
    said = titles(draw_confusion(TINY_IMAGES).svg)
    assert "3 of 4 images of 1 were told right (75.00 %)" in said
    assert "1 of 4 images of 1 was taken for 7 (25.00 %)" in said
    assert "0 of 3 images of 2 were taken for 7 (0 %)" in said
    assert len(said) == 1 + 9  # its own title, and the cells
    caption = draw_confusion(TINY_IMAGES).caption
    assert caption[0] == "digits, 10 images of dev: 8 told right, 80.00 %."


@given(st.lists(st.lists(st.integers(0, 99), min_size=4, max_size=4), min_size=4, max_size=4))
def test_mistakes_are_all_that_is_off_the_diagonal(counts):
    found = class_mistakes(Confusion(tuple("abcd"), tuple(map(tuple, counts))))
    assert sum(each.n for each in found) == sum(map(sum, counts)) - sum(counts[i][i] for i in range(4))
    assert [each.n for each in found] == sorted([each.n for each in found], reverse=True)
    if not found:
        assert confusion_words(Confusion(("a",), ((3,),)), "row") == "Every row was told right."


def test_of_very_many_classes_those_with_most_mistakes_are_drawn():
    n = 60
    counts = [[50 if i == j else 0 for j in range(n)] for i in range(n)]
    counts[41][59] = 7
    confusion = Confusion(tuple(f"class {i}" for i in range(n)), tuple(map(tuple, counts)))
    picture = draw_confusion(replace(TINY_IMAGES, answers=TINY_IMAGES.answers._replace(confusion=confusion)))
    words = words_of(picture.svg)
    assert words.count("class 41") == words.count("class 59") == 2
    assert picture.caption[-1] == "Drawn: the 24 of 60 classes that most mistakes were made with."
    assert picture.caption[1] == "Most often confused: class 41 was taken for class 59 in 7 of 57 images."


@given(st.integers(1, 500), st.floats(0, 1))
def test_the_interval_of_a_bin_is_wilsons(n, share):
    right = round(n * share)
    low, high = wilson_interval(ConfidenceBin(0.0, 1.0, n, 0.5, right / n))
    wanted = binomtest(right, n).proportion_ci(0.95, method="wilson")
    assert (low, high) == pytest.approx((wanted.low, wanted.high), abs=1e-4)


def test_the_dots_of_the_calibration_stand_where_they_belong():
    svg = draw_calibration(TINY_IMAGES).svg
    unsure = dots(svg)["0.50 to 0.75: 4 answers, sure 0.650, right 0.500"]
    sure = dots(svg)["0.75 to 1.00: 6 answers, sure 0.900, right 1.000"]
    assert unsure == pytest.approx((480 * 0.65, 480 * 0.5), abs=0.1)
    assert sure == pytest.approx((480 * 0.9, 0.0), abs=0.1)
    assert not re.search(r"[^a-z](nan|inf)[^a-z]", svg)


def test_the_dots_of_a_regression_share_one_scale():
    svg = draw_regression(TINY_ROWS).svg
    x, y = dots(svg)["truth 5,500, answer 5,500"]
    assert x + y == pytest.approx(600, abs=0.2)  # on the diagonal
    x, y = dots(svg)["truth 4,000, answer 3,900"]
    assert x + y > 601  # below it
    broken = TINY_ROWS.answers._replace(points=(*TINY_ROWS.answers.points, (math.nan, 1.0)))
    assert dots(draw_regression(replace(TINY_ROWS, answers=broken)).svg) == dots(svg)


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_an_image_is_drawn_pixel_by_pixel(width, height, data):
    pixels = tuple(tuple(data.draw(st.integers(0, 255)) for _ in range(width)) for _ in range(height))
    (address,) = re.findall(r'href="data:image/png;base64,([^"]*)"', "".join(framed_image(pixels, 0, "#000000")))
    image = Image.open(io.BytesIO(base64.b64decode(address))).convert("L")
    assert tuple(tuple(image.getpixel((x, y)) for x in range(width)) for y in range(height)) == pixels


def test_images_are_shown_with_truth_answer_and_certainty():
    picture = draw_mistakes(TINY_IMAGES)
    words = words_of(picture.svg)
    assert {"says 1", "0.71", "image 17"} <= set(words)
    assert picture.caption[1] == "4 images are shown, of which 2 are wrong."
    assert "image 17" in titles(picture.svg)


def test_the_letters_that_differ_are_marked():
    svg = draw_mistakes(TINY_PAIRS).svg
    assert {"ccab", "abc", "abb"} <= set(words_of(svg))
    assert len(re.findall(r'stroke="#c26a16" stroke-width="3"/>', svg)) == 1  # the last letter of abb
    short = AnsweredExample("cab", "abc", "a", 0.4, False)
    shorter = replace(TINY_PAIRS, answers=TINY_PAIRS.answers._replace(examples=(short,)))
    assert 'stroke-dasharray="3 3"' in draw_mistakes(shorter).svg  # what is missing


def test_reconstructions_are_beside_their_images():
    svg = draw_reconstructions(TINY_RECONSTRUCTION).svg
    assert svg.count("<image ") == 4
    assert {"image 21", "image 17"} <= set(titles(svg))


def test_classes_have_colours_while_there_are_enough():
    points = [LatentPoint(0.0, 0.0, str(i)) for i in (10, 2, 1)]
    assert classes_of(points) == ["1", "2", "10"]
    assert classes_of([LatentPoint(0.0, 0.0, name) for name in ("b", "aa", "")]) == ["aa", "b"]
    many = tuple(LatentPoint(float(i), 0.0, f"label {i}") for i in range(40))
    picture = draw_latent(replace(TINY_RECONSTRUCTION, answers=TINY_RECONSTRUCTION.answers._replace(latent=many)))
    assert picture.caption[-1].startswith("There are more than 16 labels")
    assert "label 39" in dots(picture.svg)
    assert set(words_of(draw_latent(TINY_RECONSTRUCTION).svg)) >= {"1", "2", "7", "class"}


def test_the_ladder_is_drawn_by_its_metric():
    picture = draw_ladder(TINY_IMAGES.ladder)
    words = words_of(picture.svg)
    assert {"80.00 %", "+10.00 points", "accuracy, %", "simple, dev", "test"} <= set(words)
    assert picture.caption[1] == (
        "cnn is 10.00 points of accuracy above nearest centroid, the best of simple models (80.00 % and 70.00 %)."
    )
    cnn, centroid, majority = TINY_IMAGES.ladder.rungs
    lost = TINY_IMAGES.ladder._replace(rungs=(cnn, centroid, majority._replace(metric=None)))
    assert draw_ladder(lost).caption[-1] == "Not drawn, because the accuracy is not a finite number: majority class."


def test_curves_are_drawn_in_their_unit():
    picture = draw_loss_curves(TINY_ROWS)
    words = words_of(picture.svg)
    assert {"loss, squared error", "simple models, on dev", "linear regression 0.1000"} <= set(words)
    assert picture.caption[0].startswith("On dev the lowest loss is 0.0120, after step 4 of 4, 0.088 below linear reg")
    assert "without having learned it should be about 1.0000" in picture.caption[1]
    # What was measured on a part of dev on the way is not set beside what simple models have on all of it.
    of_part = draw_loss_curves(replace(TINY_ROWS, plan=TINY_ROWS.plan._replace(evaluated=10)))
    assert of_part.caption[0].startswith("On about 10 predictions of dev the lowest loss is 0.0120")
    assert f"; on more of it {TINY_ROWS.ladder.loss(TINY_ROWS.rung):.4f}, " in of_part.caption[0]
    images = draw_loss_curves(TINY_IMAGES)
    assert "guessing costs ln 3 = 1.0986" in images.caption[1]
    assert "nearest centroid" not in images.svg
    assert "nan" not in images.svg


def test_simple_models_far_above_the_curves_do_not_squeeze_them():
    """Curves from 1.8 to 2.0: what is up to 2.1 stands in the frame, and the rest is told."""
    evaluations = tuple(
        one._replace(train=loss, dev=loss)
        for one, loss in zip(TINY_RUN.evaluations, (2.0, 1.9, 1.85, 1.8), strict=False)
    )
    own = tuple(one._replace(loss=1.9) for one in TINY_RUN.steps)
    network, count, *_ = TINY_RUN.ladder.rungs
    rungs = [count._replace(name=name, dev=dev, is_counted=True) for name, dev in (("near", 2.05), ("far", 2.5))]
    ladder = TINY_RUN.ladder._replace(rungs=(network, *rungs))
    picture = draw_loss_curves(replace(TINY_RUN, steps=own, evaluations=evaluations, ladder=ladder))
    assert "near 2.0500" in words_of(picture.svg)
    assert "far 2.5000" not in words_of(picture.svg)
    assert "Above the frame: far 2.5000." in picture.caption


def test_a_metric_of_the_data_is_written_with_four_digits():
    assert metric_words("MAE", 15432.1) == "15,432"
    assert metric_words("accuracy", math.nan) == "not known"
