"""Honest splits into train, dev and test: by hash, by strata, by time, by group, and a report on each.

split.py has `split_data`, assignment.py the strategies. Nothing heavy is loaded by this, so that a bad request is
refused at once.
"""

from pellucid.data.splits.request import FRACTIONS, SIDES, STRATEGIES, SplitRequest, require_fractions

__all__ = ["FRACTIONS", "SIDES", "STRATEGIES", "SplitRequest", "require_fractions"]
