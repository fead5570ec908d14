"""What networks of lists and texts get wrong on dev, beside a plain loop over their own probabilities."""

import json
import math
import os
from collections import Counter
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.api.draw import draw
from pellucid.errors import PellucidError
from pellucid.figures.drawings.calibration import draw_calibration
from pellucid.records import TokenMistakes
from pellucid.runs import open_run
from pellucid.training.checkpoints import load_network
from pellucid.training.inference import token_mistakes
from pellucid.training.inference.token_mistakes import STRETCH, measure_token_mistakes, predict_side
from pellucid.training.run import ResumeOptions, reopen_data

NAMES = sorted(
    {a + b + c for a in ("an", "be", "cor", "da", "el") for b in ("na", "li", "ro", "mi") for c in ("", "s", "n")}
)
TEXT = " ".join(f"{one} and {other} went to {third}." for one, other, third in zip(NAMES, NAMES[7:], NAMES[3:])) * 3  # noqa: B905
RUNS = {
    "list": ("words.txt", {"kind": "list", "start": "scratch"}),
    "list-on-counts": ("words.txt", {"kind": "list", "start": "counts"}),
    "text": ("text.txt", {"kind": "text", "start": "scratch"}),
    "text-on-counts": ("text.txt", {"kind": "text", "start": "counts"}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory):
    folder, before = tmp_path_factory.mktemp("mistakes"), Path.cwd()
    (folder / "words.txt").write_text("\n".join(NAMES))
    (folder / "text.txt").write_text(TEXT)
    os.chdir(folder)
    try:
        for name, (source, options) in RUNS.items():
            pellucid.train(source, name=name, model="transformer", size="tiny", steps=12, threads=1, **options)
        yield folder / "runs"
    finally:
        os.chdir(before)


def predict_one_by_one(run, side, context):
    """Each token from those before it in its item or window, with one pass of the network for each: a plain loop."""
    model = load_network(run)[0].eval()
    rows, begins = [], 0
    tokens = side.tokens.tolist()
    for place, target in enumerate(side.targets.tolist()):
        if (tokens[place] == 0) if side.has_boundary else (place % context == 0):
            begins = place
        with torch.no_grad():
            shares = model(torch.tensor([tokens[begins : place + 1]]))[0, -1].double().softmax(-1)
        rows.append((target, int(shares.argmax()), -math.log(shares[target]), float(shares.max()), place - begins))
    return rows


@pytest.mark.parametrize("name", ["list", "list-on-counts", "text"])
def test_every_number_is_that_of_a_plain_loop_over_the_networks_probabilities(runs, name):
    run = open_run(runs / name)
    seen, task = measure_token_mistakes(run), reopen_data(run, ResumeOptions())
    rows, names = predict_one_by_one(run, task.sides.dev, task.context), task.sides.vocabulary.tokens
    assert seen.n_tokens == seen.n_side == len(rows)
    assert seen.nats == pytest.approx(sum(row[2] for row in rows) / len(rows), abs=1e-5)
    assert seen.share_right == pytest.approx(sum(row[0] == row[1] for row in rows) / len(rows))

    error = 0.0
    for i, each in enumerate(seen.calibration.bins):
        inside = [row for row in rows if i / 10 < row[3] <= (i + 1) / 10]
        assert each.n == len(inside)
        if inside:
            sure, right = (sum(part) / len(inside) for part in ([r[3] for r in inside], [r[0] == r[1] for r in inside]))
            assert (each.confidence, each.share_right) == pytest.approx((sure, right), abs=1e-5)
            error += len(inside) / len(rows) * abs(sure - right)
    assert seen.calibration.error == pytest.approx(error, abs=1e-5)

    wrong = Counter((names[row[0]], names[row[1]]) for row in rows if row[0] != row[1])
    of = Counter(names[row[0]] for row in rows)
    assert [one.n for one in seen.confusions] == sorted(wrong.values(), reverse=True)[: len(seen.confusions)]
    assert all((wrong[one.truth, one.likeliest], of[one.truth]) == (one.n, one.of) for one in seen.confusions)

    parts: list[list[tuple]] = []
    for row in rows:
        if row[4] % (STRETCH if run.kind == "text" else 10**9) == 0:
            parts.append([])
        parts[-1].append(row)
    parts.sort(key=lambda part: -sum(row[2] for row in part) / len(part))
    for told, part in zip(seen.parts, parts, strict=False):
        assert told.nats == pytest.approx(sum(row[2] for row in part) / len(part), abs=1e-5)
    assert len(seen.parts) == min(token_mistakes.MOST_PARTS, len(parts))
    worst = seen.parts[0]
    assert [(one.token, one.likeliest) for one in worst.tokens] == [(names[r[0]], names[r[1]]) for r in parts[0]]
    assert [one.nats for one in worst.tokens] == pytest.approx([row[2] for row in parts[0]], abs=1e-4)


@pytest.mark.parametrize("name", RUNS)
def test_what_is_told_is_what_the_run_was_judged_by(runs, name):
    run = open_run(runs / name)
    seen, rung = measure_token_mistakes(run), run.report().rung
    assert seen.nats == pytest.approx(rung.dev, abs=1e-5)


@pytest.mark.parametrize("name", ["text", "text-on-counts"])
def test_windows_of_a_long_text_are_read_as_among_all_of_them(runs, name):
    """No seam between two of them is taken for a surprise, and what is before a window is told."""
    run = open_run(runs / name)
    task, model = reopen_data(run, ResumeOptions()), load_network(run)[0]
    side, context = task.sides.dev, task.context
    whole = predict_side(model, side, context, side.n_predicted)
    some = predict_side(model, side, context, 2 * context)
    assert 0 < len(some.places) < len(whole.places)
    assert some.nats.tolist() == pytest.approx(whole.nats[some.places].tolist(), abs=1e-9)
    text = task.sides.vocabulary.decode(side.tokens.tolist())
    for part in measure_token_mistakes(run).parts:
        assert part.before + "".join(one.token for one in part.tokens) in text


def test_the_command_draws_the_calibration_of_lists_and_texts(runs, pellucid):
    for name in ("list-on-counts", "text"):
        measured = measure_token_mistakes(open_run(runs / name))
        said = json.loads(pellucid("draw", "calibration", name, "--json", cwd=runs.parent).stdout)
        assert said["data"]["calibration"]["error"] == measured.calibration.error
        assert f"{measured.n_side:,} tokens of dev" in said["caption"][0]
        assert isinstance(draw("calibration", runs / name).record, TokenMistakes)
        svg = draw_calibration(measured).svg
        assert svg.count("<circle") == sum(each.n > 0 for each in measured.calibration.bins)
        assert "the probability of the likeliest token" in svg


def test_a_side_that_is_long_is_read_in_part_and_that_is_said(runs, monkeypatch):
    monkeypatch.setattr(token_mistakes, "MOST_READ", 20)
    seen = measure_token_mistakes(open_run(runs / "list"))
    assert 0 < seen.n_tokens < seen.n_side
    assert f"{seen.n_tokens} of {seen.n_side:,} tokens of dev" in draw_calibration(seen).caption[0]


def test_other_runs_are_told_what_to_draw(runs):
    pellucid.train("digits", name="images", size="tiny", steps=3, threads=1)
    with pytest.raises(PellucidError, match="no next tokens"):
        measure_token_mistakes(open_run(runs / "images"))
