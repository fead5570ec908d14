"""What the settings may be that all networks for pairs have."""

from __future__ import annotations

from typing import Protocol

from pellucid.errors import PellucidError, require_one_of
from pellucid.layers.positions import POSITIONS
from pellucid.models.settings import require_dropout, require_share
from pellucid.options import require_whole


class PairConfig(Protocol):
    """What every configuration has beside its own fields. Each is a frozen dataclass of plain values."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def longest_source(self) -> int: ...

    @property
    def longest_target(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def depth(self) -> int: ...

    @property
    def n_heads(self) -> int: ...

    @property
    def dropout(self) -> float: ...

    @property
    def positions(self) -> str: ...


def require_possible(config: PairConfig) -> None:
    """Refuse what cannot be built."""
    for field in ("vocab_size", "longest_source", "longest_target", "width", "depth", "n_heads"):
        require_whole(field, getattr(config, field))
    require_dropout(config.dropout)
    require_share("width", config.width, config.n_heads, of="heads")
    require_one_of("kind of positions", config.positions, POSITIONS)
    if config.positions == "rotary" and config.width // config.n_heads % 2:
        raise PellucidError(
            f"rotary positions turn pairs, and a head of {config.width // config.n_heads} numbers has one left over",
            fix=f"Choose width {config.width + config.n_heads}, or other positions",
        )
