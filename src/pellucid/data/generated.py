"""What generators share: fingerprints of what they made, and refusals of what they cannot make."""

import hashlib
from typing import TYPE_CHECKING, Any

from pellucid.errors import PellucidError

if TYPE_CHECKING:
    import numpy


def fingerprint_of(*arrays: "numpy.ndarray[Any, Any]") -> str:
    """sha256 over the shapes, types and contents of arrays."""
    import numpy

    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(numpy.ascontiguousarray(array).data)
    return digest.hexdigest()


def require_count(n: int, noun: str, most: int) -> None:
    """Refuse a number of examples that is none or that no machine holds."""
    if not 1 <= n <= most:
        raise PellucidError(f"{n:,} {noun} cannot be made", fix=f"Ask for 1 to {most:,}")
