"""The manual of Python's own language, as running text."""

import hashlib

from pellucid.data.kinds import TextData
from pellucid.data.readers.sources import MemorySource
from pellucid.data.sets import DatasetCard
from pellucid.records import make_note


def load(seed: int = 0, n: int = 0) -> TextData:
    """The topics of `help()`, by name, one after another; with n, the first n characters."""
    import sys
    from pydoc_data.topics import topics

    text = "\n\n".join(topics[name].strip("\n") for name in sorted(topics)) + "\n"
    text = text[:n] if n else text
    content = text.encode("utf-8")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return TextData(
        name="manual",
        source=MemorySource("manual", content),
        encoding="utf-8",
        newlines="keep",
        n_characters=len(text),
        first_nul=-1,
        because=f"the manual topics of this Python {version}",
        fingerprint=hashlib.sha256(content).hexdigest(),
        notes=(make_note("python-version"),),
    )


DATASET = DatasetCard(
    name="manual",
    kind="text",
    summary="the reference manual of the Python language, about half a million characters of running text",
    source="the standard library of the Python that runs pellucid (pydoc_data.topics), read at run time",
    licence="Python Software Foundation License, © Python Software Foundation",
    is_generated=False,
    load=load,
)
