"""Every broken program of strangers does harm: in plain torch, trained beside its repaired twin, it ends the worse."""

import math

import pytest
from tests.at_length import some_of
from tests.broken.twins import SETS, load_stranger, names_of_strangers

PROGRAMS = [(which, name) for which in SETS for name in names_of_strangers(which)]
MARGIN = 1.15  # how much worse it has to be than its twin


@pytest.mark.parametrize(("which", "name"), some_of(PROGRAMS, 24))
@pytest.mark.filterwarnings("ignore")  # some of these bugs are warned of by torch
def test_a_broken_program_ends_worse_than_its_twin(which, name):
    broken, repaired = load_stranger(which, name).harm()
    assert math.isfinite(repaired)
    assert not broken <= repaired + (MARGIN - 1) * abs(repaired)  # nan is as bad as can be


def test_the_third_set_has_at_least_forty_bugs_and_names_where_each_was_reported():
    names = names_of_strangers("third")
    assert len(names) >= 40
    for name in names:
        assert "# Reported " in load_stranger("third", name).text
