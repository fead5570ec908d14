"""The card that every data set of ours carries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pellucid.data.kinds import Data


@dataclass(frozen=True)
class DatasetCard:
    """A data set that comes with pellucid: what it is, where its facts come from, and how to get it.

    `load(seed=0, n=...)` gives the data; n is how many rows, items or images, and a generator makes as many as it is
    asked for. A set that is not generated ignores the seed. Some sets take more, such as transactions(drift=True).
    """

    name: str
    kind: str
    says: str  # one sentence
    source: str  # where its facts come from
    licence: str
    is_generated: bool
    load: Callable[..., Data]
    also: Mapping[str, Callable[..., Data]] = field(default_factory=dict)  # other kinds it can be read as
