"""Readers of the claims on attention in training: the honest loss, and data of one's own."""

import math

import pytest

from pellucid.claims.attention_in_training import (
    DiagonalKnobs,
    LeakKnobs,
    ReaderKnobs,
    measure_diagonal,
    measure_leak,
    reader_dev_loss,
)


def test_under_a_causal_mask_the_computed_loss_is_the_honest_one():
    knobs = ReaderKnobs(steps=3, width=8)
    told, honest = (reader_dev_loss(knobs, is_honest=is_honest) for is_honest in (False, True))
    assert told == pytest.approx(honest, abs=1e-5)
    assert told < math.log(27) + 1
    blind = ReaderKnobs(steps=3, width=8, mask="none")
    assert abs(reader_dev_loss(blind) - reader_dev_loss(blind, is_honest=True)) > 1e-3


def test_a_reader_reads_a_text_of_ones_own(tmp_path):
    text = tmp_path / "sea.txt"
    text.write_text("\n".join(f"the {i}th wave went over the grey stones and came back" for i in range(400)))
    found = measure_leak(LeakKnobs(data=str(text), steps=2, width=8))
    assert all(math.isfinite(number) for number in found.values())
    diagonal = measure_diagonal(DiagonalKnobs(data=str(text), steps=2, width=8))
    # Windows of 32 tokens: of 1 / 2 to 1 / 32 the mean.
    assert diagonal["by chance"] == pytest.approx(sum(1 / n for n in range(2, 33)) / 31, rel=0.05)
