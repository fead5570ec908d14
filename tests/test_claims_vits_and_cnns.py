"""Images whose pixels or patches change places: nothing is lost, and patches stay whole."""

import torch

from pellucid.claims.batch_sizes import EscapeKnobs, losses_on_waves, measure_escapes
from pellucid.claims.convolution_sizes import StudentCodeKnobs, read_student_code, run_student_code
from pellucid.claims.vits_and_cnns import scramble_places


def test_scrambled_pixels_are_the_same_pixels_elsewhere():
    for kind in ("none", "pixels", "patches"):
        places = scramble_places((6, 8), kind, 2, seed=3)
        assert sorted(places.tolist()) == list(range(48))
    assert scramble_places((6, 8), "none", 2, seed=3).tolist() == list(range(48))
    assert scramble_places((6, 8), "pixels", 2, seed=3).tolist() != list(range(48))


def test_scrambled_patches_stay_whole_and_a_rest_at_the_edge_stays():
    places = scramble_places((4, 5), "patches", 2, seed=1).view(4, 5)
    assert places[:, 4].tolist() == [4, 9, 14, 19]  # no whole patch
    for row in (0, 2):
        for column in (0, 2):
            first = int(places[row, column])
            assert places[row : row + 2, column : column + 2].flatten().tolist() == [
                first,
                first + 1,
                first + 5,
                first + 6,
            ]
    assert places[:, :4].tolist() != torch.arange(20).view(4, 5)[:, :4].tolist()


def test_a_wave_is_as_high_as_it_is_said_to_be():
    losses = losses_on_waves(0.4, seed=1)
    bottom, top = torch.zeros(1, dtype=torch.float64), torch.pi * torch.tensor([0.4 / 4.0]).sqrt().double()
    rise = losses([top], None) - losses([bottom], None)
    assert abs(float(rise) - 0.4 - 0.01 * float(top) ** 2) < 1e-6  # and the bowl


def test_without_noise_nothing_escapes():
    seen = measure_escapes(EscapeKnobs(batch_size=64, seed=2))
    assert seen["escaped on small batches"] == seen["escaped on all points"] == 0


def test_the_printed_code_by_running_and_by_counting():
    for commas in (0, 1, 2):
        for features in (120, 144):
            knobs = StudentCodeKnobs(commas, features)
            assert run_student_code(knobs) == read_student_code(knobs)
