"""Where a run's data are: remembered so that the folder can be moved and given away, and found again."""

import os
from pathlib import Path, PurePath

from pellucid.data.sets import is_dataset
from pellucid.errors import PellucidError

STANDARD_INPUT = "-"


def remembered(source: str, place: Path) -> str:
    """The data as the run remembers them: a set's name, or a path from the run's folder, never an absolute one.

    >>> remembered("names", Path("runs/first")), remembered("data/own.txt", Path("runs/first"))
    ('names', '../../data/own.txt')
    """
    if source == STANDARD_INPUT or is_dataset(source):
        return source
    return os.path.relpath(os.path.abspath(source), os.path.abspath(place))


def found_again(run: Path, source: str, fingerprint: str) -> str:
    """What to open now for what was remembered; that it is still the same is another question."""
    gone = f"it had sha256 {fingerprint[:12]}…"
    if is_dataset(source):
        return source
    if source == STANDARD_INPUT:
        raise PellucidError(f"the data of {run.name} came by standard input; {gone}", fix="Pass them with --data FILE")
    # A run may come from someone else: it names no file but one near itself.
    if os.path.isabs(source) or not (run / source).exists():
        raise PellucidError(f"the data file of {run.name} is gone; {gone}", fix="Pass it with --data FILE")
    return os.path.normpath(run / source)


def stem_of(source: str) -> str:
    """What a run on these data is called, unless it is given a name.

    >>> stem_of("data/own.txt"), stem_of("-"), stem_of("house-numbers:n=20000")
    ('own', 'data', 'house-numbers')
    """
    word = source.partition(":")[0]
    return "data" if word == STANDARD_INPUT else PurePath(word).stem or "data"
