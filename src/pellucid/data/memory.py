"""How much memory there is, asked before it is needed."""

import os

from pellucid.errors import TooLarge


def physical_memory() -> int:
    """Bytes of memory of this machine, or a cautious 2 GB where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2 << 30


def gigabytes(n_bytes: float) -> str:
    """A size in words.

    >>> gigabytes(381_000_000), gigabytes(25e9)
    ('0.38 GB', '25 GB')
    """
    return f"{n_bytes / 1e9:.2g} GB" if n_bytes < 1e10 else f"{n_bytes / 1e9:,.0f} GB"


def require_memory(needed: int, name: str, fix: str) -> None:
    """Refuse what would not fit, with both numbers, before anything is read."""
    there = physical_memory()
    if needed > there:
        raise TooLarge(
            f"{name} needs about {gigabytes(needed)} of memory, and this machine has {gigabytes(there)}", fix=fix
        )
