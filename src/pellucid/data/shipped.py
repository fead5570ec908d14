"""The files that are shipped inside the package."""

import gzip
from importlib import resources


def shipped(name: str) -> bytes:
    """The unpacked content of a file in data/embedded."""
    return gzip.decompress((resources.files("pellucid.data") / "embedded" / name).read_bytes())
