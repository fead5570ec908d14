"""What a run's start and the looks at it mean, the gravest first."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pellucid.inspection.judgements import judged
from pellucid.inspection.rule import SEVERITIES
from pellucid.records import Finding, Health, InitialLoss


def findings(health: Sequence[Health], start: InitialLoss) -> list[Finding]:
    """What the start and the looks tell, the gravest first.

    >>> start = InitialLoss(3.2961, 3.2958, 2.8, True, "3.2961 nats, and ln 27 = 3.2958: no opinions.")
    >>> [(finding.severity, finding.where) for finding in findings([], start)]
    [('sound', 'the first loss')]
    """
    return sorted([_of_the_start(start), *judged(health)], key=lambda finding: SEVERITIES.index(finding.severity))


def _of_the_start(start: InitialLoss) -> Finding:
    if start.is_as_expected:
        means = "no step is lost on forgetting what was never learned"
        return Finding("sound", "the first loss", start.says, means, "", rule="initial-loss")
    return Finding(
        "suspicious" if math.isfinite(start.measured) else "broken",
        "the first loss",
        start.says,
        f"the first steps go into coming down from {start.measured:.2f} to {start.uniform:.2f}"
        if start.measured > start.uniform
        else "the loss before training should be about that of guessing",
        "give the last layer's weights a smaller deviation at the start"
        if start.measured > start.uniform
        else "look at where the weights and the targets come from",
        rule="initial-loss",
    )
