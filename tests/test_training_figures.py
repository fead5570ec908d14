"""The pictures and words of training: every number drawn is the record's, and nothing that happened is hidden."""

import base64
import io
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.tiny_records import TINY, TINY_RUN, tiny_record

from pellucid.errors import PellucidError
from pellucid.figures.charts.layer_maps import unit_grid
from pellucid.figures.charts.panel import Axis, axis_spanning, spread_labels, thin_series
from pellucid.figures.drawings.gradient_norms import draw_gradient_norms
from pellucid.figures.drawings.ladder import draw_ladder
from pellucid.figures.drawings.layer_histograms import draw_layer_histograms
from pellucid.figures.drawings.learning_rate import draw_learning_rate
from pellucid.figures.drawings.loss_curves import draw_loss_curves
from pellucid.figures.drawings.unit_maps import draw_unit_maps
from pellucid.figures.drawings.update_ratios import draw_update_ratios, ratios
from pellucid.figures.progress import ProgressLine
from pellucid.figures.show import record_json, show
from pellucid.figures.words.ladder import baseline_table
from pellucid.figures.words.training import data_lines, plan_lines, start_words
from pellucid.lessons.dead_unit import LESSON as DEAD_UNIT
from pellucid.lessons.gains import LESSON as GAINS
from pellucid.lessons.hockey_stick import LESSON as HOCKEY_STICK
from pellucid.lessons.saturation import LESSON as SATURATION
from pellucid.records import Evaluation, Histogram, SampledAt, Step

numbers = st.floats(-1e6, 1e6)
maybe_numbers = st.one_of(numbers, st.sampled_from([math.nan, math.inf, -math.inf]))


def titles(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).findall(".//{*}title")]


def words_of(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).findall(".//{*}text")]


def polylines(svg: str) -> list[list[tuple[float, float]]]:
    found = re.findall(r'<polyline [^>]*points="([^"]*)"', svg)
    return [[tuple(map(float, pair.split(","))) for pair in points.split()] for points in found]


# Thinning


@given(st.lists(maybe_numbers, max_size=300), st.integers(4, 40))
def test_thinning_keeps_the_order_the_extremes_and_the_gaps(values, most):
    points = [(float(i), value) for i, value in enumerate(values)]
    pieces = thin_series(points, most)
    kept = [point for piece in pieces for point in piece]
    finite = [point for point in points if math.isfinite(point[1])]
    assert len(kept) <= max(most, 2)
    assert kept == sorted(kept)
    assert set(kept) <= set(finite)
    if finite:
        assert min(value for _, value in kept) == min(value for _, value in finite)
        assert max(value for _, value in kept) == max(value for _, value in finite)
    if len(points) <= most:
        assert kept == finite
    bad = [place for place, value in points if not math.isfinite(value)]
    if len(points) <= most:
        for piece in pieces:
            assert not [place for place in bad if piece[0][0] < place < piece[-1][0]]


def test_a_spike_among_a_million_steps_is_seen():
    points = [(float(i), 2.0) for i in range(1_000_000)]
    points[777_777] = (777_777.0, 9.0)
    (piece,) = thin_series(points)
    assert len(piece) <= 2000
    assert (777_777.0, 9.0) in piece


# Axes


@given(st.floats(-1e5, 1e5), st.floats(1e-3, 1e5), st.integers(2, 12))
def test_ticks_are_round_inside_and_few(low, width, most):
    axis = Axis(low, low + width)
    ticks = axis.ticks(most)
    assert len(ticks) <= most
    assert all(axis.low - 1e-6 * width <= tick <= axis.high + 1e-6 * width for tick in ticks)
    steps = [second - first for first, second in pairwise(ticks)]
    assert steps == pytest.approx([steps[0]] * len(steps)) if steps else True


@given(st.floats(1e-8, 1e8), st.floats(2, 1e12), st.integers(2, 12))
def test_powers_of_ten_are_inside_and_few(low, ratio, most):
    axis = Axis(low, low * ratio, is_log=True)
    ticks = axis.ticks(most)
    assert len(ticks) <= most
    assert all(axis.low * 0.99 <= tick <= axis.high * 1.01 for tick in ticks)


@given(st.lists(maybe_numbers), st.booleans())
def test_an_axis_has_room_for_everything_that_can_be_drawn(values, is_log):
    axis = axis_spanning(values, "x", is_log=is_log)
    assert axis.low < axis.high
    for value in values:
        if math.isfinite(value) and (value > 1e-290 or not is_log):
            assert -1e-9 <= axis.part(value) <= 1 + 1e-9


@given(st.lists(st.floats(0, 100), max_size=12))
def test_labels_never_cover_each_other(wanted):
    wanted = sorted(wanted)
    places = spread_labels(wanted, 5.0, 0.0, 100.0)
    assert len(places) == len(wanted)
    assert all(second - first >= 5.0 - 1e-9 for first, second in pairwise(places))
    assert all(-1e-9 <= place <= 100 + 1e-9 for place in places)
    if all(second - first >= 5.0 for first, second in pairwise(wanted)):
        assert places == wanted


# Maps


@given(st.integers(1, 30), st.integers(1, 10), st.data())
def test_a_map_of_units_holds_every_digit(width, height, data):
    rows = [data.draw(st.text("0123456789", min_size=width, max_size=width)) for _ in range(height)]
    drawn = "".join(unit_grid(rows, [f"#{i:02x}{i:02x}00" for i in range(10)]).marks)
    (address,) = re.findall(r'href="data:image/png;base64,([^"]*)"', drawn)
    image = Image.open(io.BytesIO(base64.b64decode(address))).convert("RGB")
    found = [[image.getpixel((x, y)) for x in range(width)] for y in range(height)]
    assert found == [[(int(digit), int(digit), 0) for digit in row] for row in rows]


def test_dead_units_are_marked_and_counted():
    picture = DEAD_UNIT.draw(tiny_record("dead-unit"))
    assert titles(picture.svg).count("unit 1") == 2  # above the values and above the gradients
    assert "Dead: 1 of 4 (▼ 1, counted from 0). In all 37.50 % of the values are flat." in picture.caption
    maps = draw_unit_maps(TINY_RUN)
    assert "1 of 4 units of 1 layer are saturated or flat on every example." in maps.caption[0]
    saturated = SATURATION.draw(tiny_record("saturation"))
    assert "Units saturated on every example (▼): 2 on the left, 0 on the right." in saturated.caption


def test_a_run_without_such_layers_says_so():
    bare = replace(TINY_RUN, health=tuple(health._replace(maps=()) for health in TINY_RUN.health))
    with pytest.raises(PellucidError, match="no layer of this run can saturate"):
        draw_unit_maps(bare)
    with pytest.raises(PellucidError, match="no look at its layers"):
        draw_layer_histograms(replace(TINY_RUN, health=()))


# Curves


def test_the_dots_of_dev_stand_where_their_losses_are():
    svg = draw_loss_curves(TINY_RUN).svg
    found = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"[^>]*><title>step (\d+): dev ([\d.]+)</title>', svg)
    assert [int(step) for _, _, step, _ in found] == [0, 2, 4]
    (x0, y0, *_), (x2, y2, *_), (x4, y4, *_) = [(float(x), float(y)) for x, y, _, _ in found]
    assert x2 - x0 == pytest.approx(x4 - x2, abs=0.2)
    # dev is 1.11, 0.95 and 0.92.
    assert (y2 - y0) / (y4 - y2) == pytest.approx(0.16 / 0.03, rel=0.05)
    assert y0 < y2 < y4


def test_a_long_run_is_thinned_and_its_gaps_are_told():
    steps = [Step(i, 2.0 if i != 60_000 else 3.0, 10, 0.01, 1.0) for i in range(1, 100_001)]
    steps[499] = steps[499]._replace(loss=math.nan)
    steps[700] = steps[700]._replace(loss=math.inf)
    picture = draw_loss_curves(replace(TINY_RUN, steps=tuple(steps)))
    assert picture.caption[-1] == "At steps 500 and 701 the loss was not a finite number: gaps."
    assert not re.search(r"[^a-z](nan|inf)[^a-z]", picture.svg)
    assert sum(len(line) for line in polylines(picture.svg)) < 2 * 2000 + 1000
    assert len(picture.svg) < 150_000


def test_every_counted_rung_is_a_rule_with_its_loss():
    words = words_of(draw_loss_curves(TINY_RUN).svg)
    assert {"bigram 0.9900", "uniform 1.0986", "dev 0.9200", "train 0.7000"} <= set(words)


def test_ratios_are_those_of_matrices_and_nothing_is_drawn_before_the_first_update():
    lines = ratios(TINY_RUN)
    assert set(lines) == {"table.weight", "layers.0.weight"}
    assert math.isnan(lines["table.weight"][0][1])
    assert lines["table.weight"][1] == (4, 2e-3)
    said = draw_update_ratios(TINY_RUN).caption[1]
    assert said.endswith("the smallest is 0.0008 (layers.0.weight), the largest 0.002 (table.weight).")


def test_norms_and_how_often_they_were_clipped():
    picture = draw_gradient_norms(TINY_RUN)
    assert "a median of 0.625, between 0.375 and 1.5" in picture.caption[0]
    assert "clipped, in 25.00 % of the steps" in picture.caption[1]
    unclipped = replace(TINY_RUN, plan=TINY_RUN.plan._replace(clip=0.0))
    assert "clipped" not in "".join(draw_gradient_norms(unclipped).caption)


def test_many_parameters_keep_the_names_of_the_highest_and_lowest():
    weight = TINY_RUN.health[1].weights[1]
    many = tuple(weight._replace(path=f"layer{i}.weight", update_ratio=1e-6 * (i + 1)) for i in range(80))
    run = replace(TINY_RUN, health=tuple(health._replace(weights=many) for health in TINY_RUN.health))
    picture = draw_update_ratios(run)
    words = words_of(picture.svg)
    assert {"layer0", "layer79"} <= set(words)
    assert "layer40" not in words
    assert set(titles(picture.svg)) >= {f"layer{i}.weight" for i in range(80)}
    assert picture.caption[-1].startswith("Named are the 20 highest and lowest")


def test_ridges_have_a_bar_for_each_part_that_holds_something():
    layer = TINY_RUN.health[0].layers[0]._replace(values=Histogram(-1.0, 1.0, (3, 0, 5, 0, 1)))
    run = replace(TINY_RUN, health=(TINY_RUN.health[0]._replace(layers=(layer,)),))
    svg = draw_layer_histograms(run).svg
    path = re.search(r'<path d="([^"]*)" fill="[^"]*"><title>layers.0.act Tanh: 9 values', svg)
    assert path
    heights = [float(height) for height in re.findall(r"v-([\d.]+)h", path[1])]
    assert heights == pytest.approx([40 * 3 / 5, 40, 40 / 5], abs=0.1)


def test_the_gains_say_which_is_right():
    picture = GAINS.draw(tiny_record("gains"))
    words = words_of(picture.svg)
    assert {"gain 0.5: too small", "gain 1.67: right", "gain 3: too large"} <= set(words)


def test_the_hockey_stick_tells_how_long_the_blade_is():
    picture = HOCKEY_STICK.draw(tiny_record("hockey-stick"))
    assert "as late as step 2." in picture.caption[-1]


def test_a_search_without_an_answer_marks_nothing():
    sweep = TINY["learning-rate"].sweeps[0]
    search = TINY["learning-rate"]._replace(
        sweeps=(sweep,),
        seeds=(1,),
        by_percentile=(None,),
        by_valley=(None,),
        answers=(None,),
        failures=(None,),
        suggestion=None,
    )
    picture = draw_learning_rate(search)
    assert picture.caption[0] == "names. mlp, a step at each of up to 13 rates; seed 1."
    assert picture.caption[1] == "No answer: none of the 1 sweeps has one."
    assert "suggested" not in picture.svg
    assert "suggested: 0.02" in draw_learning_rate(TINY["learning-rate"]).svg
    assert not [title for title in titles(picture.svg) if "rule" in title]
    flat = tuple(trial._replace(loss=math.nan, smoothed=math.nan, slope=math.nan) for trial in sweep)
    ElementTree.fromstring(draw_learning_rate(search._replace(sweeps=(flat,))).svg)


def test_the_ladder_is_drawn_in_order_and_what_is_infinite_is_told():
    rungs = TINY["ladder"].rungs
    infinite = rungs[1]._replace(name="unsmoothed", dev=math.inf)
    picture = draw_ladder(TINY["ladder"]._replace(rungs=(rungs[2], infinite, rungs[1], rungs[0])))
    words = words_of(picture.svg)
    places = [words.index(rung.name) for rung in rungs]
    assert places == sorted(places)
    assert "0.0800 below counting" in words
    assert picture.caption[-1] == "Not drawn, because the loss is not a finite number: unsmoothed."


# Words


def test_the_ladder_in_a_terminal(capsys):
    show(TINY["ladder"])
    assert capsys.readouterr().out == (
        "three names\n\n"
        "model         dev nats  bits/char   train  parameters  seconds  tokens/s  over counting\n"
        "transformer     1.9000      2.740  1.8500     200,000     60.0    90,000        +0.0800\n"
        "kneser-ney 5    1.9800      2.850  1.6000      90,000      0.4\n"
        "uniform         3.2958      4.750  3.2958           0      0.0                  −1.3158\n\n"
        "The best network, transformer, earns 0.0800 nats a token over the best that only counts, kneser-ney 5.\n"
    )
    rungs = json.loads(record_json(TINY["ladder"]))["rungs"]
    assert [rung["gap"] for rung in rungs] == pytest.approx([0.08, 0.0, 1.98 - 3.2958])


def test_a_network_behind_counting_is_said_to_be(capsys):
    rungs = TINY["ladder"].rungs
    show(TINY["ladder"]._replace(rungs=(rungs[1], rungs[0]._replace(dev=2.5), rungs[2])))
    said = capsys.readouterr().out
    assert "transformer, is 0.5200 nats a token behind the best that only counts, kneser-ney 5" in said


def test_a_rate_search_in_a_terminal(capsys):
    show(TINY["learning-rate"])
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert re.split(" {2,}", lines[2].strip()) == ["seed", "steepest", "valley", "flattest", "lowest at", "tried up to"]
    assert re.split(" {2,}", lines[3].strip()) == ["1", "0.01", "0.02", "0.03", "0.0464", "1"]
    assert re.split(" {2,}", lines[4].strip()) == ["2", "no answer", "0.03", "no answer", "0.0464", "1"]
    assert "Try a learning rate of 0.02: 2 of 2 seeds say between 0.015 and 0.025." in lines
    assert json.loads(record_json(TINY["learning-rate"]))["by_percentile"] == [0.01, None]
    nothing = TINY["learning-rate"]._replace(sweeps=((), ()), suggestion=None, answers=(None, None))
    show(nothing)
    lines = capsys.readouterr().out.splitlines()
    assert "   2  no answer    0.03  no answer  no answer    no answer" in lines
    assert "No answer: none of the 2 sweeps has one." in lines


def test_the_parts_before_the_first_step():
    assert data_lines(TINY_RUN.data) == [
        "words.txt: a list of 4 items",
        "train 2 items, 5 tokens; dev 1 item, 3 tokens; test 1 item, 2 tokens",
        "3 symbols (characters); guessing costs ln 3 = 1.0986 nats a token",
    ]
    assert plan_lines(TINY_RUN.plan, TINY_RUN.network)[:2] == [
        "mlp, 45 parameters: context 3",
        "4 steps of 2, about 0.1 s; adamw, learning rate 0.01, 1 warmup step, then linear",
    ]
    assert start_words(TINY_RUN.start).startswith("1.1100 nats")
    assert len(baseline_table(TINY_RUN.ladder._replace(rungs=TINY_RUN.ladder.rungs[1:])).rows) == 2


def test_the_report_in_a_terminal(capsys):
    show(TINY_RUN)
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["mlp", "bigram", "uniform"]
    assert (
        "good fit: at step 4 dev is 0.9200 and train 0.7000, 0.2200 apart, and dev was at its lowest at the end."
        in said
    )
    assert "note: layers.0.act at step 4: 1 of 4 units" in lines
    assert (
        "2 samples: 1 in train, 0 in dev, 1 new; new are those in neither, as the test side is not looked at" in lines
    )
    assert (
        "The mlp earns 0.0700 nats a token over counting (0.9200 against the bigram's 0.9900 on dev; on test 0.0600). "
        "It made 4 steps, 4.0 epochs."
    ) in " ".join(said.split())
    assert lines[-3:] == ["  pellucid sample tiny", "  pellucid score tiny ab", "  runs/tiny/report.html"]
    assert "dev 0.9200" in said
    document = json.loads(record_json(TINY_RUN))
    assert document["ladder"]["rungs"][0]["gap"] == pytest.approx(0.07)
    assert document["steps"] == 4


def test_nothing_of_the_data_moves_the_cursor_or_reaches_a_shell(capsys):
    hostile = "\x1b[2J; rm -rf x"
    data = TINY_RUN.data._replace(first=(hostile,), description=hostile, source=hostile)
    samples = (TINY_RUN.samples[0]._replace(text=hostile, nearest=hostile, copied=hostile),)
    show(replace(TINY_RUN, data=data, samples=samples))
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "  pellucid score tiny emma" in said.splitlines()


# Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_through(stream: io.StringIO, n: int = 100) -> None:
    line = ProgressLine(TINY_RUN.plan._replace(steps=n), stream)
    line.evaluation(Evaluation(0, 3.3, 3.3))
    for i in range(1, n + 1):
        line.step(Step(i, 3.0, 10, 0.01, 1.0), 12_345.0, float(n - i))
        if i == 50:
            line.evaluation(Evaluation(50, 2.0, 2.1))
            line.samples(SampledAt(50, ("emma", "\x1b[2J", "")))
    line.close()


def test_in_a_log_there_is_a_line_for_each_tenth():
    stream = io.StringIO()
    run_through(stream)
    lines = stream.getvalue().splitlines()
    steps = [line for line in lines if line.startswith("step") and "makes" not in line]
    assert [line.split()[1] for line in steps] == ["1", *[str(i) for i in range(10, 101, 10)]]
    assert steps[1] == "step 10 of 100 (10 %)  loss 3.0000  dev 3.3000  12,345 tokens/s  1 min 30 s left"
    assert steps[-1] == "step 100 of 100 (100 %)  loss 3.0000  dev 2.1000  12,345 tokens/s"
    assert "step 50 makes: emma, \\x1b[2J, (empty)" in lines


def test_a_few_steps_give_a_line_each():
    stream = io.StringIO()
    run_through(stream, n=3)
    assert len(stream.getvalue().splitlines()) == 3


def test_on_a_terminal_one_line_is_written_over(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    run_through(stream)
    said = stream.getvalue()
    assert said.count("\n") == 2  # the samples, and the end
    last = said.split("\r\x1b[2K")[-1]
    assert last.startswith("━" * 20 + " step 100 of 100")
    assert last.endswith("tokens/s\n")
