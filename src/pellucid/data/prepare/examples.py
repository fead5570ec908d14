"""Examples as arrays: numbers standardised, and which of them train, choose and test.

A side is told by the hash of what the example holds, so equal examples share one and adding others moves none. For
small data alone there are exceptions: every class has an example in train, and dev and test have one each where train
can spare it. Of fewer than ten different examples a tenth is not one: then all of them train, and nothing is held out.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import TASKS
from pellucid.data.splits import FRACTIONS, SIDES, TWO_SIDES, SplitRequest
from pellucid.data.splits.assignment import DEV, TEST, TRAIN, SideNumbers, by_hash, hold_out_by_hash
from pellucid.data.splits.hashing import Words, numbered_hashes
from pellucid.errors import PellucidError, quoted
from pellucid.records import Leak, SplitChoice, Statement

if TYPE_CHECKING:
    from pellucid.data.prepare import Preparation

Places = NDArray[np.int64]

FARTHEST = 1e4  # deviations; what stands farther out counts as that, so that float32 holds it
FEWEST_DIVIDED = 10  # different examples


@dataclass(frozen=True)
class Examples:
    """What a network reads of some examples, and what is true of them.

    numbers: (rows, features) or (rows, channels, height, width), float32; codes: (rows, columns), int64;
    targets: (rows,), int64 for classes and float32 for numbers, which are standardised by train.

    >>> some = Examples(np.eye(3, dtype=np.float32), np.zeros((3, 0), dtype=np.int64), np.array([0, 1, 0]))
    >>> len(some), some.rows(np.array([2, 1])).targets
    (3, array([0, 1]))
    """

    numbers: NDArray[np.float32]
    codes: NDArray[np.int64]
    targets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.numbers)

    def rows(self, which: "NDArray[Any] | slice") -> "Examples":
        """These rows alone, in this order."""
        return Examples(self.numbers[which], self.codes[which], self.targets[which])


@dataclass(frozen=True)
class ExampleSides:
    """The data, divided and in numbers. Without a target, targets are all 0 and there are no classes."""

    train: Examples = field(repr=False)
    dev: Examples = field(repr=False)
    test: Examples = field(repr=False)
    places: Mapping[str, Places] = field(repr=False)  # of each side, the row numbers in the data, from 0
    preparation: "Preparation"
    task: str  # "classification", "regression" or "reconstruction"
    classes: tuple[str, ...]
    target: str
    name_of: Callable[[int], str] = field(repr=False)  # where a user finds a row or an image
    notes: tuple[Statement, ...] = ()
    n_unknown: int = 0  # cells of dev and test with a category that train does not have
    split: SplitChoice | None = None  # of a table: how it was divided, and why
    leaks: tuple[Leak, ...] = ()  # features that give the target away
    words: Words | None = field(default=None, repr=False)  # of the rows with a target; equal ones cannot be divided

    def limited(self, n_train: int, seed: int = 0) -> "ExampleSides":
        """The same with n training examples, drawn from all of train; of one seed fewer are always among more.

        Not the first n: a folder of images is in the order of its classes.
        """
        if not 1 <= n_train <= len(self.train):
            raise PellucidError(
                f"{n_train:,} training examples are wanted, and there are {len(self.train):,}",
                fix=f"Choose 1 to {len(self.train):,}",
            )
        which = np.sort(
            np.argsort(numbered_hashes(len(self.train), seed=str(seed) if seed else ""), kind="stable")[:n_train]
        )
        places = {**self.places, "train": self.places["train"][which]}
        return replace(self, train=self.train.rows(which), places=places)


def example_hashes(numbers: NDArray[np.float32], codes: NDArray[np.int64]) -> Words:
    """The 8-byte BLAKE2b of what a network reads of each example, by which one that it learned from is known again.

    >>> hashes = example_hashes(np.array([[1.5], [2.0], [1.5]], dtype=np.float32), np.array([[0], [0], [0]]))
    >>> bool(hashes[0] == hashes[2]), bool(hashes[0] == hashes[1])
    (True, False)
    """
    flat, whole = np.ascontiguousarray(numbers.reshape(len(numbers), -1)), np.ascontiguousarray(codes, dtype="<i8")
    rows = zip(flat, whole, strict=True)
    digests = b"".join([blake2b(one.tobytes() + more.tobytes(), digest_size=8).digest() for one, more in rows])
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def divide_examples(hashes: Words, labels: NDArray[np.int64], request: SplitRequest | None = None) -> dict[str, Places]:
    """The rows of each side by hash; where they are too few to divide, all of them train.

    >>> hashes = np.array([1, 1, 2, 2**63], dtype=np.uint64)
    >>> {side: rows.tolist() for side, rows in divide_examples(hashes, np.array([0, 0, 0, 1])).items()}
    {'train': [0, 1, 2, 3], 'dev': [], 'test': []}
    """
    return whole_as_train(len(hashes)) if are_too_few(hashes) else places_by_hash(hashes, labels, request)


def are_too_few(hashes: Words) -> bool:
    """Whether nothing can be held out of these examples that would tell anything."""
    return len(np.unique(hashes)) < FEWEST_DIVIDED


def whole_as_train(n_rows: int) -> dict[str, Places]:
    """All rows on the training side."""
    return {"train": np.arange(n_rows), "dev": np.arange(0), "test": np.arange(0)}


def places_by_hash(hashes: Words, labels: NDArray[np.int64], request: SplitRequest | None = None) -> dict[str, Places]:
    """The rows of each side. labels: the class of each row; one class for all where there are none.

    request: how they are to be divided, where it was said; of train and test alone, dev is taken from train.

    >>> hashes = np.array([1, 1, 2, 2**63, 2**64 - 1], dtype=np.uint64)
    >>> {side: rows.tolist() for side, rows in places_by_hash(hashes, np.array([0, 0, 0, 0, 1])).items()}
    {'train': [0, 1, 4], 'dev': [3], 'test': [2]}
    """
    sides = by_hash(hashes, request.fractions if request else FRACTIONS)
    if request and request.sides == TWO_SIDES:
        hold_out_by_hash(sides, hashes)
    return complete_places(sides, hashes, labels)


def complete_places(sides: SideNumbers, hashes: Words, labels: NDArray[np.int64]) -> dict[str, Places]:
    """The rows of each side, once every class has one in train, and dev and test have one if train can spare it.

    hashes: (row,); rows with equal ones stay together. The sides are changed in place. Where train can spare none, dev
    and test are empty.
    """
    for label in np.setdiff1d(labels, labels[sides == TRAIN]):
        sides[hashes == hashes[labels == label].min()] = TRAIN
    if not (sides == DEV).any() and not _spare(sides, hashes, labels, DEV):
        if not (sides == TEST).any():
            return whole_as_train(len(hashes))
        sides[hashes == hashes[sides == TEST].min()] = DEV
    if not (sides == TEST).any():
        _spare(sides, hashes, labels, TEST)
    return {side: np.flatnonzero(sides == number) for number, side in enumerate(SIDES)}


def _spare(sides: NDArray[np.int8], hashes: Words, labels: NDArray[np.int64], side: int) -> bool:
    """Move the training examples with the highest hash that no class needs to another side; whether there were any."""
    n_classes = len(np.unique(labels))
    for word in np.unique(hashes[sides == TRAIN])[::-1]:
        stays = (sides == TRAIN) & (hashes != word)
        if len(np.unique(labels[stays])) == n_classes:
            sides[hashes == word] = side
            return True
    return False


def mean_and_deviation(values: NDArray[np.float64]) -> tuple[float, float]:
    """Of the values that are there; the deviation of equal values is 1, so that they become 0 and not nan.

    >>> mean_and_deviation(np.array([1.0, 3.0, np.nan])), mean_and_deviation(np.array([7.0, 7.0]))
    ((2.0, 1.0), (7.0, 1.0))
    >>> mean_and_deviation(np.array([-1e308, 1e308]))
    (0.0, 1e+308)
    """
    there = values[~np.isnan(values)]
    largest = float(np.abs(there).max(initial=0.0))
    if not largest:
        return 0.0, 1.0
    # Divided by the largest, so that neither a sum nor a square leaves the range of a float64.
    scaled = there / largest
    deviation = float(scaled.std()) * largest
    # Equal values may leave a deviation of a rounding error behind.
    is_constant = there.min() == there.max() or not deviation
    return float(scaled.mean()) * largest, 1.0 if is_constant else deviation


def standardise(values: NDArray[np.float64], mean: float, deviation: float) -> NDArray[np.float32]:
    """(values − mean) / deviation, at most FARTHEST from 0; a missing value becomes 0, the mean.

    >>> standardise(np.array([1.0, 3.0, np.nan, 1e300]), 2.0, 1.0).tolist()
    [-1.0, 1.0, 0.0, 10000.0]
    """
    with np.errstate(over="ignore"):
        # Halved, for the difference of two huge numbers may be larger than any float64.
        far = (values / 2 - mean / 2) / deviation * 2
    kept: NDArray[np.float32] = np.clip(
        np.nan_to_num(far, nan=0.0, posinf=FARTHEST, neginf=-FARTHEST), -FARTHEST, FARTHEST
    ).astype(np.float32)
    return kept


def require_scale(means: Sequence[float], deviations: Sequence[float]) -> None:
    """Refuse a stored preparation whose numbers nothing could be standardised by."""
    if not all(math.isfinite(number) for number in (*means, *deviations)) or not all(one > 0 for one in deviations):
        raise damaged_preparation("a mean is no finite number, or a deviation is not above 0")


def require_task(task: str, classes: tuple[str, ...]) -> None:
    """Refuse a stored preparation whose classes do not fit its task."""
    if task not in TASKS:
        raise damaged_preparation(f"there is no task {quoted(task)}")
    is_fitting = len(classes) >= 2 if task == "classification" else not classes if task == "regression" else True
    if not is_fitting or len(set(classes)) != len(classes):
        raise damaged_preparation(f"{len(classes)} classes do not fit the task {task}, or one stands twice")


def damaged_preparation(why: str) -> PellucidError:
    """The error for a stored preparation that cannot be believed."""
    return PellucidError(f"the stored preparation is damaged: {why}", fix="Take the file from a copy of the run")
