"""Claims: every one can fail, two routes agree, stored verdicts are those of today, and the command answers."""

import json
import math
import pickle
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pellucid.api.claims import find_result, list_claims, run_claims
from pellucid.claims import running
from pellucid.claims.claim import (
    Claim,
    ClaimFamily,
    Search,
    agreement,
    all_claims,
    all_families,
    closeness,
    describe_method,
    find_claim,
)
from pellucid.claims.deep_training import DeepTrainingKnobs, split_classes
from pellucid.claims.judging import control_turns, interval, run_claim
from pellucid.claims.running import run, run_ledger, stored_ledger, write_ledger
from pellucid.cli.claims import EPILOG
from pellucid.data.splits import DIVIDING
from pellucid.errors import ExpressionError, PellucidError
from pellucid.figures.claims_page import draw_claim_result, ledger_html
from pellucid.figures.tables import parts_text
from pellucid.figures.words.claims import claim_parts, condition_words, ledger_parts, tally_words
from pellucid.options import check_options, option
from pellucid.records import VERDICTS, ClaimResult, Ledger, as_plain, from_plain

STORED = {one.id: one for one in stored_ledger().results}
FAST = [name for name, (_, claim) in all_claims().items() if claim.kind in ("arithmetic", "proof")]


@dataclass(frozen=True)
class LineKnobs:
    x: float = option(1.0, "", minimum=-100, maximum=100)
    n: int = option(4, "", minimum=1, maximum=1000)
    seed: int = option(1, "", minimum=0)

    def __post_init__(self) -> None:
        check_options(self)


def line_claim(margin, **more) -> Claim:
    given = {"control": {"x": -1.0}, **more}
    return Claim(
        id="line",
        says="x is above 0",
        where="here",
        kind="draws",
        measure=lambda knobs: {"x": knobs.x, "n": float(knobs.n), "seed": float(knobs.seed)},
        margin=margin,
        rule="x > 0",
        knobs=LineKnobs,
        **given,
    )


def judged(claim: Claim, **knobs) -> ClaimResult:
    return run_claim(ClaimFamily("made", "Made", (claim,)), claim, knobs)


def test_the_verdict_follows_from_the_interval_of_the_margins():
    assert judged(line_claim(lambda seen: seen["x"])).verdict == "holds"
    assert judged(line_claim(lambda seen: seen["x"]), x=-2.0).verdict == "fails"
    # Margins of 1 and -1 by turns: their interval holds 0.
    undecided = judged(line_claim(lambda seen: (-1.0) ** seen["seed"], seeds=6))
    assert undecided.verdict == "not decided"
    assert undecided.margin.low < 0 < undecided.margin.high
    assert judged(line_claim(lambda seen: seen["seed"], seeds=6)).verdict == "holds"


def test_the_interval_is_that_of_student():
    from scipy import stats

    values = [0.3, 1.2, 0.9, 2.1, 1.4]
    found = interval("x", values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=found.mean, scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-2)


def test_a_turning_point_is_found_to_the_whole_number():
    claim = line_claim(lambda seen: seen["n"] - 37.5, search=Search("n", 2, 900, is_log=True))
    found = judged(claim)
    assert found.verdict == "only when"
    assert (found.condition.holds_at, found.condition.fails_at) == (38, 37)
    assert condition_words(found.condition) == "n > 37"
    assert [margin for _, margin in found.curve] == [value - 37.5 for value, _ in found.curve]


def test_a_turning_point_of_a_fraction_is_found_to_a_hundredth():
    found = judged(line_claim(lambda seen: 2.5 - seen["x"], search=Search("x", 0.5, 50.0), control={"x": 10.0}))
    assert condition_words(found.condition).startswith("x < 2.5")
    assert found.condition.holds_at <= 2.5 < found.condition.fails_at
    assert found.condition.fails_at - found.condition.holds_at <= 0.03


def test_a_search_without_a_turn_judges_the_whole_range():
    assert judged(line_claim(lambda seen: seen["n"], search=Search("n", 2, 900))).verdict == "holds"
    assert judged(line_claim(lambda seen: -seen["n"], search=Search("n", 2, 900))).verdict == "fails"
    wavy = judged(line_claim(lambda seen: math.sin(seen["x"]), search=Search("x", 0.1, 12.0)))
    assert wavy.verdict == "not decided"


def test_both_sides_of_a_turning_point_are_decided():
    # Margins of six seeds scatter by 20 to both sides of n - 37.5, so that values near it tell nothing.
    claim = line_claim(lambda seen: seen["n"] - 37.5 + 20 * (-1.0) ** seen["seed"], seeds=6, search=Search("n", 2, 90))
    found = judged(claim)
    assert found.verdict == "only when"
    holds, fails = (judged(claim, n=int(at)).margin for at in (found.condition.holds_at, found.condition.fails_at))
    assert holds.low > 0 > fails.high
    assert condition_words(found.condition) == f"n ≥ {found.condition.holds_at:g}, not at {found.condition.fails_at:g}"
    # Where nothing above the turn is decided, neither is the claim.
    assert judged(replace(claim, search=Search("n", 2, 45, n_values=5))).verdict == "not decided"


def test_nothing_is_measured_twice():
    calls = []
    claim = line_claim(lambda seen: seen["n"] - 37.5, search=Search("n", 4, 900, is_log=True), control={"n": 4})
    judged(replace(claim, measure=lambda knobs: calls.append(knobs.n) or {"n": float(knobs.n)}))
    assert len(calls) == len(set(calls))


def test_two_routes_that_disagree_are_our_bug():
    claim = line_claim(lambda seen: seen["x"], second=lambda knobs: {"x": knobs.x + 0.1})
    with pytest.raises(AssertionError, match="by one route"):
        judged(claim)
    # Another route need not follow every knob that is turned.
    assert judged(claim, x=2.0).numbers[0].second is None


def test_another_route_gives_the_number_that_decides():
    """Of most claims that have one; at least 40 are asked for."""
    deciding = [
        name
        for name, one in STORED.items()
        if any(number.name == one.deciding and number.second is not None for number in one.numbers)
    ]
    assert len(deciding) >= 150


@pytest.mark.parametrize(
    ("value", "stated", "digits", "is_so"),
    [(2.04166, 2.0417, 4, True), (0.2689, 0.27, 2, True), (2.718, 2.71, 2, True), (2.718, 2.7, 2, False)],
)
def test_a_stated_number_may_be_rounded_or_cut(value, stated, digits, is_so):
    assert (closeness(value, stated, digits) > 0) is is_so
    assert (closeness(-value, stated, digits) > 0) is False


def test_agreement_is_relative():
    assert agreement((1e9, 1e9 + 0.1)) > 0
    assert agreement((1.0, 1.1)) < 0


@pytest.mark.parametrize("name", sorted(STORED))
def test_each_control_comes_out_the_other_way(name):
    assert control_turns(STORED[name])


def test_every_claim_has_a_stored_result_and_a_verdict():
    assert list(STORED) == list(all_claims())
    assert {one.verdict for one in STORED.values()} <= set(VERDICTS)
    covered = [other for one in STORED.values() for other in (one.id, *one.covers)]
    assert len(covered) == len(set(covered))


@pytest.mark.parametrize("name", FAST)
def test_arithmetic_and_proofs_give_today_what_is_stored(name):
    family, claim = find_claim(name)
    today = run_claim(family, claim)
    assert (today.verdict, today.condition) == (STORED[name].verdict, STORED[name].condition)
    assert today.statement == STORED[name].statement
    assert as_plain(from_plain(ClaimResult, as_plain(today))) == as_plain(today)


def test_claims_that_were_not_run_stay_in_the_ledger(tmp_path):
    family = all_families()["dice-and-grids"]
    rows = tuple(STORED[claim.id] for claim in family.claims)
    write_ledger(tmp_path, Ledger(rows))
    write_ledger(tmp_path, Ledger((replace(rows[2], verdict="not decided"),)))
    found = json.loads((tmp_path / "dice-and-grids.json").read_text())
    assert [row["id"] for row in found] == [claim.id for claim in family.claims]
    assert [row["verdict"] for row in found if row["id"] == rows[2].id] == ["not decided"]


def test_one_claim_that_breaks_does_not_cost_the_others(tmp_path, monkeypatch):
    journal, ids = tmp_path / "journal.jsonl", ["dice-expected-49-24", "grid-diagonal-6"]
    whole = running.run_claim

    def break_one(family, claim, *more):
        assert claim.id != ids[0], "on purpose"
        return whole(family, claim, *more)

    monkeypatch.setattr(running, "run_claim", break_one)
    with pytest.raises(AssertionError, match="on purpose"):
        run_ledger(ids, {}, None, journal)
    assert [json.loads(line)["id"] for line in journal.read_text().splitlines()] == ids[1:]


def test_errors_come_back_from_other_processes():
    error = pickle.loads(pickle.dumps(PellucidError("three came", where="here", fix="Try {kind}", options={"kind": 2})))
    assert (str(error), error.what, error.exit_code) == ("three came here. Try kind=2.", "three came", 2)
    column = pickle.loads(pickle.dumps(ExpressionError("odd", text="1+", column=2, fix="Mend it")))
    assert (column.column, column.excerpt()) == (2, ExpressionError("odd", text="1+", column=2, fix="").excerpt())


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    journal = tmp_path / "journal.jsonl"
    told = []
    run_ledger(["dice-expected-49-24"], {}, None, journal)
    with journal.open("a") as file:
        file.write('{"id": "grid-diagonal-6", "fam')  # cut off by a kill
    ids = ["dice-expected-49-24", "grid-diagonal-6"]
    ledger = run_ledger(ids, {}, None, journal, on_done=lambda result, n, of: told.append(result.id))
    assert told == ["grid-diagonal-6"]
    assert [one.id for one in ledger.results] == ids


def test_the_ledger_is_searched():
    assert {one.family for one in list_claims(family="dice-and-grids").results} == {"dice-and-grids"}
    assert all(one.verdict == "fails" for one in list_claims(verdict="fails").results)
    assert "dice-expected-49-24" in [one.id for one in list_claims(search="DICE expectation").results]
    assert list_claims(search="zebra").results == ()
    assert tally_words(list_claims(search="zebra")) == "No claim is like that."
    assert find_result("grid-known-minimum").id == "grid-minimum-5"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["claims", "run", "dice-expected-49-25"], "Perhaps you meant dice-expected-49-24"),
        (["claims", "run"], "no claim is named"),
        (["claims", "run", "dice-expected-49-24", "--knob", "sides=1"], "sides is 1"),
        (["claims", "run", "dice-expected-49-24", "--knob", "side=8"], "Perhaps you meant sides"),
        (["claims", "run", "dice-expected-49-24", "--knob", "sides"], "no knob with its value"),
        (["claims", "run", "dice-expected-49-24", "--knob", "sides=many"], "no number"),
        (["claims", "run", "dice-expected-49-24", "--data", "names"], "cannot be asked of data"),
        (["claims", "run", "dice-expected-49-24", "--seeds", "0"], "the number of seeds is 0"),
        (["claims", "show", "nothing"], "there is no claim called"),
        (["claims", "--verdict", "perhaps"], "there is no verdict called"),
    ],
)
def test_what_cannot_be_is_refused(pellucid, words, said):
    done = pellucid(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_the_command_lists_shows_and_runs(pellucid, tmp_path):
    rows = json.loads(pellucid("claims", "--json").stdout)
    assert [row["id"] for row in rows] == list(STORED)
    wanted = {"id", "covers", "where", "statement", "verdict", "condition", "numbers", "seeds", "seconds", "version"}
    assert wanted <= set(rows[0])
    page, picture = tmp_path / "ledger.html", tmp_path / "one.svg"
    shown = pellucid("claims", "show", "dice-expected-49-24", "--out", str(picture))
    assert "2.04167" in shown.stdout
    assert picture.read_text().startswith("<svg")
    assert pellucid("claims", "--family", "dice-and-grids", "--html", str(page)).returncode == 0
    assert "dice-expected-49-24" in page.read_text()
    again = pellucid("claims", "run", "dice-expected-49-24", "--knob", "sides=8", "--json")
    assert json.loads(again.stdout)[0]["verdict"] == "fails"


def test_a_claim_is_told_with_its_method_and_the_code_to_do_it_again(pellucid):
    said = pellucid("claims", "show", "dice-expected-49-24").stdout
    for words in ("measures", "also by", "2 to 100", "pellucid draw dice", "by another route", "in the control"):
        assert words in said, words
    code = next(line for line in said.splitlines() if "python -c" in line).split("'")[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert "dice-expected-49-24: fails" in done.stdout  # with the control's knob
    assert json.loads(pellucid("claims", "show", "dice-expected-49-24", "--json").stdout)["method"]["picture"] == "dice"


def test_commands_to_copy_are_whole_and_quoted():
    lines = parts_text(claim_parts(find_result("conv-implementation-is-faster")), 60).splitlines()
    command = next(line for line in lines if "--knob" in line)
    assert shlex.split(command)[-1] == "beside=patch by patch"
    code = next(line for line in lines if "python -c" in line)
    compile(shlex.split(code)[-1], "shown", "exec")


def test_the_ledger_fits_a_narrow_terminal():
    lines = parts_text(ledger_parts(list_claims(family="dice-and-grids")), 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert "dice-expected-49-24  holds" in lines  # and what it says below, over the whole width


def test_examples_of_the_help_exist():
    known = {*all_claims(), *all_families()}
    named = [line.split()[3] for line in EPILOG.splitlines() if " run " in line or " show " in line]
    assert named
    assert set(named) <= known


def test_what_was_changed_after_a_first_run_is_told():
    assert "after a first run" in parts_text(claim_parts(find_result("vit-overfits-more")))
    page = (Path(__file__).parent.parent / "docs" / "claims.md").read_text(encoding="utf-8")
    told = page.split("## What was changed after a first run")[1]
    changed = [name for name, (_, claim) in all_claims().items() if claim.changed]
    assert len(changed) > 20
    assert all(f"| `{name}` |" in told for name in changed)


def test_every_claim_that_is_tested_says_what_it_measures():
    silent = [name for name, (family, claim) in all_claims().items() if claim.measure and not method_of(family, claim)]
    assert silent == []


def method_of(family, claim):
    # A lambda that only sets a knob stands for the function behind it, and need not say it again.
    return describe_method(family, claim).done or claim.measure.__name__ == "<lambda>"


CUSTOMERS = "customer,age,city,bought\n" + "".join(
    [f"c{one},{20 + one % 50},{'ABC'[one % 3]},{'yes' if one * 7 % 13 > 6 else 'no'}\n" * 5 for one in range(60)]
)


@pytest.mark.parametrize(
    ("division", "said"),
    [
        ({}, "divided by group, so that no customer stands on two sides: customer has 60 values"),
        ({"strategy": "hash"}, "customer looks like a group, and stands on several sides"),
        ({"group": "customer"}, "divided by group, so that no customer stands on two sides: as asked"),
    ],
)
def test_rows_of_a_table_are_divided_as_of_train_and_it_is_told_why(tmp_path, division, said):
    path = tmp_path / "customers.csv"
    path.write_text(CUSTOMERS)
    told: list[str] = []
    knobs = {"target": "bought", "depth": "1", "steps": "10"}
    name = "residual-converges-deeper"
    ledger = run_claims([name], knobs=knobs, seeds=1, data=str(path), on_division=told.append, **division)
    assert said in told[0]
    assert {key: value for key, value in ledger.results[0].knobs.items() if key in DIVIDING} == division


def test_rows_of_one_customer_are_on_one_side_where_they_are_divided_by_it(tmp_path):
    path = tmp_path / "customers.csv"
    path.write_text(CUSTOMERS)
    by_row, by_customer = (
        split_classes(str(path), split=DeepTrainingKnobs(data=str(path), target="bought", **division).split)
        for division in ({"strategy": "random"}, {"strategy": "group", "group": "customer"})
    )
    shared = [
        {tuple(row.tolist()) for row in sides.train.numbers} & {tuple(row.tolist()) for row in sides.dev.numbers}
        for sides in (by_row, by_customer)
    ]
    # Every customer has another age but for the first ten, and five equal rows.
    assert len(shared[0]) > len(shared[1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["residual-converges-deeper", "--strategy", "hash"], "none are named"),
        (["nll-non-negative", "--data", "names", "--strategy", "hash"], "trains on no rows of a table"),
        (["residual-converges-deeper", "--data", "digits", "--order", "x"], "--order changes nothing for images"),
        (["residual-converges-deeper", "--data", "penguins", "--strategy", "group"], "needs to know the column"),
    ],
)
def test_a_division_that_changes_nothing_is_refused(pellucid, words, said):
    done = pellucid("claims", "run", *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_claims_end_in_time_and_all_of_them_go_on_from_their_journal(pellucid, tmp_path):
    none = pellucid("claims", "run", "dice-and-grids", "--minutes", "1e-12", "--workers", "1", "--json")
    assert json.loads(none.stdout) == []
    assert "8 claims were not begun" in none.stderr
    assert "--minutes is -1" in pellucid("claims", "run", "dice-and-grids", "--minutes", "-1").stderr
    # A journal that holds all but one of them.
    kept = [one for one in STORED.values() if one.id != "grid-diagonal-6"]
    (tmp_path / "runs").mkdir()
    lines = [json.dumps(as_plain(one)) for one in kept]
    (tmp_path / "runs" / "claims.jsonl").write_text("\n".join(lines) + "\n")
    done = pellucid("claims", "run", "all", "--json")
    assert [line.split()[-2] for line in done.stderr.splitlines()] == ["grid-diagonal-6"]
    assert len(json.loads(done.stdout)) == len(STORED)


def test_a_claim_in_python_prints_and_draws_itself():
    found = run("dice-expected-49-24")
    assert "holds" in repr(found)
    assert found._repr_svg_().startswith("<svg")
    with pytest.raises(PellucidError, match="Perhaps you meant sides"):
        run("dice-expected-49-24", sidse=8)
    with pytest.raises(PellucidError, match="no claim is named"):
        run_claims([])


def test_nothing_of_a_claim_is_read_as_markup():
    one = next(iter(STORED.values()))
    poisoned = ClaimResult(**{**vars(one), "statement": "<script>alert(1)</script>", "rule": "<img src=x>"})
    page = ledger_html(type(stored_ledger())((poisoned,)), {one.family: "<b>"})
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "<script>alert" not in draw_claim_result(poisoned).svg


def test_families_have_claims_and_pictures_that_exist():
    from pellucid.api.draw import drawable

    for family in all_families().values():
        assert family.claims
        assert family.picture in ("", *drawable()), family.name
