"""What a network for examples may be made to read, and how many scores it may give."""

from __future__ import annotations

from pellucid.errors import PellucidError
from pellucid.options import require_whole


def require_shapes(numbers: object, categories: object, outputs: object) -> None:
    """Refuse what is no shape of an example: numbers of a table or an image, codes of each category, scores.

    >>> require_shapes((1, 8, 8), (), 10)
    >>> require_shapes((0,), (), 2)
    Traceback (most recent call last):
    pellucid.errors.PellucidError: there is neither a number nor a category to read. Give at least one column.
    """
    if not isinstance(numbers, tuple) or len(numbers) not in (1, 3):
        raise PellucidError(
            f"numbers is {numbers!r}", fix="Give (features,) of a table, or (channels, height, width) of an image"
        )
    if not isinstance(categories, tuple):
        raise PellucidError(f"categories is {categories!r}", fix="Give the number of codes of each category column")
    require_whole("outputs", outputs)
    is_image = len(numbers) == 3
    for number in numbers:
        require_whole("a number of numbers", number, least=1 if is_image else 0)
    for codes in categories:
        require_whole("a number of codes", codes)
    if numbers == (0,) and not categories:
        raise PellucidError("there is neither a number nor a category to read", fix="Give at least one column")
