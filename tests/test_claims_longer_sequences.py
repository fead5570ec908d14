"""Longer sequences: the task that they are judged by, and what a network that names symbols may see."""

import torch

from pellucid.claims.longer_sequences import BACK, SYMBOLS_USED, TRAINED, load_copies, share_right, train_copier
from pellucid.claims.order_of_tokens import ShuffleKnobs, measure_shuffled


def test_each_target_is_the_symbol_two_places_before():
    sources, targets = load_copies(3, 50, 20)
    assert targets[:, :BACK].unique().tolist() == [SYMBOLS_USED]  # nothing
    for row, copied in zip(sources.tolist(), targets.tolist(), strict=True):
        assert copied[BACK:] == row[:-BACK]


def test_no_sequence_is_judged_that_was_trained_on():
    trained = {tuple(row) for seed in range(1, 6) for row in load_copies(seed, 2_000, TRAINED)[0].tolist()}
    assert not trained & {tuple(row) for row in load_copies(1_000, 100, TRAINED)[0].tolist()}


def test_a_causal_copier_sees_nothing_later_and_another_does():
    sources, _ = load_copies(3, 4, 2 * TRAINED)
    changed = sources.clone()
    changed[:, 20:] = (changed[:, 20:] + 1) % SYMBOLS_USED
    for sees_all in (False, True):
        copier = train_copier("relative", 2 * TRAINED, TRAINED, sees_all, 5, 1)
        with torch.no_grad():
            is_same = torch.allclose(copier.score(sources)[:, :20], copier.score(changed)[:, :20], atol=1e-6)
        assert is_same is not sees_all


def test_the_share_is_that_of_the_places_that_are_asked_for():
    copier = train_copier("rotary", TRAINED, TRAINED, False, 5, 1)
    sources, targets = load_copies(1_000, 100, 32)
    with torch.no_grad():
        said = copier.score(sources).argmax(-1)
    n_right = sum([int(said[i, j] == targets[i, j]) for i in range(100) for j in range(4, 9)])
    assert share_right(copier, 32, 4, 9) == n_right / 500


def test_one_layer_without_positions_is_blind_to_a_shuffle_and_rotary_is_not():
    found = measure_shuffled(ShuffleKnobs(depth=1, steps=60))
    assert abs(found["loss rises by"]) < 2e-6
    assert abs(found["loss shuffled, with rotary ones"] - found["loss in order, with rotary ones"]) > 2e-5
