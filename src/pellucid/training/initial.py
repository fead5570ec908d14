"""The loss before the first step: a network that has learned nothing should be equally unsure of everything."""

import math

import numpy as np
import numpy.typing as npt

from pellucid.records import InitialLoss

TOLERANCE = 0.05  # of ln |V|; a judgement, and the numbers are always shown


def initial_loss(measured: float, targets: npt.ArrayLike, vocab_size: int) -> InitialLoss:
    """The first loss beside ln |V| and the entropy of the targets. Targets below 0 are padding.

    >>> start = initial_loss(math.log(4), [0, 0, 1, 2], vocab_size=4)
    >>> start.is_as_expected, round(start.label_entropy, 4)
    (True, 1.0397)
    >>> start.says
    '1.3863 nats, and ln 4 = 1.3863: the network starts without opinions.'
    """
    uniform, entropy = math.log(vocab_size), label_entropy(targets)
    beside = f"{measured:.4f} nats, and ln {vocab_size} = {uniform:.4f}"
    slack = TOLERANCE * uniform
    if not math.isfinite(measured):
        says = f"The loss is {measured} before the first step: look for what is not finite in data and weights."
    elif measured > uniform + slack:
        says = f"{beside}: it starts sure and wrong. Shrink the last layer's first weights."
    elif measured < entropy - slack:
        says = (
            f"{beside}, but the targets alone have {entropy:.4f}: it starts knowing more than their frequencies tell. "
            "Were the weights trained before, or does it see what it should predict?"
        )
    elif measured < uniform - slack:
        says = f"{beside}: it starts with opinions that help; the targets' frequencies alone would give {entropy:.4f}."
    else:
        says = f"{beside}: the network starts without opinions."
    is_as_expected = entropy - slack <= measured <= uniform + slack
    return InitialLoss(measured, uniform, entropy, is_as_expected, says)


def label_entropy(targets: npt.ArrayLike) -> float:
    """Of how often each target occurs, in nats: the least that a model without any context can reach on them.

    >>> label_entropy([1, 1, 2, 2]) == math.log(2)
    True
    """
    found = np.asarray(targets).reshape(-1)
    counts = np.bincount(found[found >= 0].astype(np.int64))
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log(shares)).sum())
