"""Mutants of healthy programs are made again as they were verified, found as published, and certified by no rule.

`benchmarks/mutants.py` verifies them and `make doctor-score` runs the doctor on all; here a fixed sample is run.
"""

import ast
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.at_length import some_of
from tests.broken.certificates import EXCLUDES, PROMISES, SURVIVING, is_excluded, surviving_certificates
from tests.broken.mutants import BUILT_EDITS, SOURCE_EDITS, Mutant, harmful_mutants, load_mutants, patient_mutants
from tests.broken.mutants.proof import STEPS, Yardstick, gap_between, measure_promises
from tests.broken.mutants.source_edits import move_index, move_transpose, parse_function, rebuild_function
from tests.broken.twins import load_stranger, names_of_strangers
from torch import nn

from pellucid.inspection.doctor import diagnose
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.rules import rules

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "doctor-score.md").read_text(encoding="utf-8")
HARMFUL = [one for one in harmful_mutants() if "Hugging Face" not in one.program]  # slow to load
HARMLESS = [one for one in load_mutants() if one.is_harmless and "Hugging Face" not in one.program]


def published_finds(part: str) -> dict[str, list[str]]:
    """Which rules found which program, as the page says; without those that none found."""
    section = PAGE.partition(f"## All broken programs: {part}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.*?)` \| .* \| (.*?) \|$", section, flags=re.MULTILINE)
    return {name.replace("\\|", "|"): found.split(", ") for name, found in rows if found != "—"}


def first_of_each_kind(mutants: list[Mutant]) -> list[Mutant]:
    return list({one.kind: one for one in reversed(mutants)}.values())


def certificate_sample() -> list[tuple[str, Mutant]]:
    """For each rule and each thing that it excludes, one mutant of its own patient and one of a program."""
    found: dict[tuple[str, str, bool], tuple[str, Mutant]] = {}
    for is_own, mutants in ((True, patient_mutants()), (False, tuple(HARMFUL))):
        for mutant in mutants:
            for rule in EXCLUDES:
                if is_excluded(rule, mutant) and (rule, mutant.name) not in SURVIVING:
                    found.setdefault((rule, mutant.kind, is_own), (rule, mutant))
    return some_of(list(found.values()), 8)


CERTIFIED = certificate_sample()
FOUND = [one for one in HARMFUL if one.name in published_finds("mutants")]


def test_there_are_enough_of_many_kinds_each_with_a_name_of_its_own():
    harmful = list(harmful_mutants())
    assert len(harmful) >= 200
    assert len({one.kind for one in harmful}) >= 12
    assert {one.kind for one in harmful} <= {*SOURCE_EDITS, *BUILT_EDITS}
    assert len({one.name for one in load_mutants()}) == len(load_mutants())
    assert sum(one.is_harmless for one in load_mutants()) >= 40


def test_a_verified_mutant_has_the_numbers_that_verify_it():
    for one in harmful_mutants():
        assert one.proof in PROMISES or one.proof.startswith(("determinism", f"loss after {STEPS} steps"))
        assert one.after > one.before or math.isnan(one.after)


@pytest.mark.parametrize("mutant", some_of(HARMFUL[::12], 3), ids=lambda mutant: mutant.name)
def test_a_mutant_is_made_again_and_is_the_same_at_every_call(mutant):
    one, other = mutant.patient(), mutant.patient()
    states = [patient.model.state_dict() for patient in (one, other)]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@pytest.mark.parametrize("mutant", HARMFUL[5::60], ids=lambda mutant: mutant.name)
def test_the_harm_of_a_mutant_is_measured_again(mutant):
    healthy = replace(mutant, kind="harmless: loaded again", place="state_dict loaded again", site=None)
    yardstick = Yardstick(lambda seed: healthy.build(seed))
    again = yardstick.judge(mutant.build)
    assert (again.verdict, again.how) == ("harm", mutant.proof)


@pytest.mark.parametrize("mutant", some_of(first_of_each_kind(FOUND), 8), ids=lambda mutant: mutant.name)
def test_the_doctor_finds_some_of_every_kind_as_published(mutant):
    expected = [rule for rule in published_finds("mutants")[mutant.name] if rule in rules()]
    said = diagnose(mutant.patient(), expected).findings
    assert [one for one in said if one.severity in ("broken", "suspicious")]


@pytest.mark.parametrize("mutant", some_of(HARMLESS[::8], 9), ids=lambda mutant: mutant.name)
def test_an_edit_that_changes_nothing_is_not_called_broken(mutant):
    before = {one.rule for one in diagnose(mutant.original()).findings if one.severity == "broken"}
    after = {one.rule for one in diagnose(mutant.patient()).findings if one.severity == "broken"}
    assert after <= before


@pytest.mark.parametrize(("rule", "mutant"), CERTIFIED, ids=lambda one: one if isinstance(one, str) else one.name)
def test_no_certificate_survives_on_a_mutant_that_it_excludes(rule, mutant):
    assert surviving_certificates(rule, mutant) == []


def test_what_certificates_exclude_are_rules_kinds_and_promises_that_exist():
    assert set(EXCLUDES) <= set(rules())
    assert {one for excluded in EXCLUDES.values() for one in excluded} <= {*SOURCE_EDITS, *BUILT_EDITS, *PROMISES}
    assert len({rule for rule, _ in CERTIFIED}) >= 8


STRANGERS = [name for name in names_of_strangers("first") if name in published_finds("first")]


@pytest.mark.parametrize("name", some_of(STRANGERS, 20))
def test_the_doctor_finds_what_it_found_of_strangers(name):
    stranger = load_stranger("first", name)
    expected = [rule for rule in published_finds("first")[name] if rule in rules()]
    broken, repaired = (
        {one.rule for one in diagnose(patient, expected).findings if one.severity in ("broken", "suspicious")}
        for patient in (stranger.broken(), stranger.repaired())
    )
    assert broken - repaired


# The parts of the generator, against what can be checked by hand.


def multiply(x, *, times=2):
    return x * times


def test_a_function_is_built_again_from_its_tree():
    tree = parse_function(multiply)
    assert rebuild_function(multiply, tree)(3) == 6
    closed = 5

    def add(x):
        return x + closed

    assert rebuild_function(add, parse_function(add))(1) == 6


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        (move_index, "x[:, -1]", ["x[:, -2]"]),
        (move_index, "x[:, :n]", ["x[:, 1:n + 1]"]),
        (move_index, "x[:, 1:]", ["x[:, :-1]"]),
        (move_transpose, "x.transpose(1, 2)", ["x.transpose(0, 1)", "x.transpose(0, 2)", "x.transpose(-1, -2)"]),
        (SOURCE_EDITS["operator"], "a + b", ["a - b"]),
        (SOURCE_EDITS["comparison"], "a < b", ["a <= b", "a > b"]),
        (SOURCE_EDITS["term left out"], "x + f(x)", ["x", "f(x)"]),
        (SOURCE_EDITS["call left out"], "torch.relu(x)", ["x"]),
        (SOURCE_EDITS["axis"], "x.softmax(-1)", ["x.softmax(-2)"]),
        (SOURCE_EDITS["flag or mask inverted"], "s.masked_fill(m, 0)", ["s.masked_fill(~m, 0)"]),
    ],
)
def test_an_edit_gives_what_may_stand_in_a_place(edit, before, after):
    node = ast.parse(before, mode="eval").body
    given = [ast.unparse(ast.fix_missing_locations(one)) for one in edit(node)]
    assert given[: len(after)] == after


def test_promises_are_measured_as_they_are():
    class Mixed(nn.Linear):
        def forward(self, x):
            return super().forward(x) - super().forward(x).mean(0).detach()

    torch.manual_seed(0)
    rows, targets = torch.randn(8, 4), torch.randn(8, 3)
    kept = measure_promises(Specimen(nn.Linear(4, 3), (rows,), targets, nn.MSELoss()))
    lost = measure_promises(Specimen(Mixed(4, 3), (rows,), targets, nn.MSELoss()))
    assert max(kept.values()) < 1e-6
    assert lost["independence of rows"] > 0.02
    assert lost["gradient is the slope"] > 0.02
    assert gap_between(rows, rows) == 0


# The published score.


def published_parts() -> dict[str, dict[str, str]]:
    """What the first table of the page says of each part, row by row; nothing where it has no parts."""
    head, *lines = map(split_cells, re.findall(r"^\| (.*) \|$", PAGE.partition("## ")[0], flags=re.MULTILINE))
    parts = [part for part in head[1:-1] if part != "measured"]
    rows = {cells[0]: cells[1:] for cells in lines[1:]}
    return {part: {name: cells[number] for name, cells in rows.items()} for number, part in enumerate(parts)}


def test_the_page_has_every_part():
    assert set(published_parts()) >= {"museum", "first", "second", "mutants"}


def test_the_page_counts_what_is_there():
    n_harmful = len(list(harmful_mutants()))
    expected = {"mutants": (n_harmful, len(load_mutants()) - n_harmful)}
    expected |= {part: (len(names_of_strangers(part)),) * 2 for part in ("first", "second")}
    for part, rows in published_parts().items():
        if part in expected:
            assert (rows["broken programs"], rows["healthy programs"]) == tuple(map(str, expected[part]))
        assert rows["found"] == str(len(published_finds(part)))
        assert rows["crashes"] == "0"


def test_the_page_and_the_readme_lead_with_the_lowest_score():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    lead = " ".join(PAGE.split("\n\n")[1].split())
    if published_parts():
        assert lead.rstrip(".") in readme
        shares = [float(one) for one in re.findall(r"([\d.]+) %", lead)]
        assert shares[0] == min(shares)
    else:  # a page of the museum alone
        counts = re.search(r"Of (\d+) broken programs it finds (\d+) .* calls none of (\d+) healthy ones", readme)
        assert counts is not None
        for row, count in zip(("broken programs", "found", "healthy programs"), counts.groups(), strict=True):
            assert re.search(rf"^\| {row} \| {count}\b", PAGE, flags=re.MULTILINE)


def split_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")]


def test_the_verified_list_is_written_as_the_generator_writes_it():
    text = (Path(__file__).parent / "mutants" / "verified.json").read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"
