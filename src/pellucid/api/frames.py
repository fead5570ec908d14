"""What goes back to Python in the shape that it came in: a frame as a frame of the same library, rows as rows.

Answers stand beside the questions, and sides of a division are parts of what was divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.data.readers.memory import PandasFrame, PolarsFrame, has_targets
from pellucid.records import Predictions


def with_answers(given: Any, found: Predictions) -> Any:
    """A frame, or rows by name, with a column predicted_TARGET and one of its probability; else the answers alone.

    >>> from pellucid.records import Prediction
    >>> found = Predictions("r", "mlp", "age", "classification", (Prediction("row 1", "7", 0.9, (("7", 0.9),)),))
    >>> with_answers({"size": [2.5]}, found)
    {'size': [2.5], 'predicted_age': [7], 'predicted_age_probability': [0.9]}
    >>> with_answers([{"size": 2.5}], found)
    [{'size': 2.5, 'predicted_age': 7, 'predicted_age_probability': 0.9}]
    """
    columns = _columns(found)
    answers = next(iter(columns.values()))
    if isinstance(given, Mapping):
        return {**given, **columns}
    if isinstance(given, PolarsFrame):
        import polars

        assert isinstance(given, polars.DataFrame)
        return given.with_columns(*(polars.Series(name, values) for name, values in columns.items()))
    if isinstance(given, PandasFrame):
        return given.assign(**columns)  # type: ignore[attr-defined]  # which keeps its index
    if hasattr(given, "add_column") and hasattr(given, "features"):  # Hugging Face
        for name, values in columns.items():
            given = given.add_column(name, values)
        return given
    if hasattr(given, "append_column"):  # Arrow
        for name, values in columns.items():
            given = given.append_column(name, [values])
        return given
    if isinstance(given, Sequence) and len(given) and isinstance(given[0], Mapping):
        rows = ({name: values[row] for name, values in columns.items()} for row in range(len(given)))
        return [{**one, **more} for one, more in zip(given, rows, strict=True)]
    if hasattr(given, "__array__"):
        import numpy

        return numpy.array(answers)
    return answers


def count_rows(given: Any) -> int:
    """How many rows, items or examples there are.

    >>> count_rows({"size": [2.5, 3.5]}), count_rows(["ava", "mia", "zoe"])
    (2, 3)
    """
    if has_targets(given):
        return len(given[0])
    return len(next(iter(given.values()))) if isinstance(given, Mapping) else len(given)


def take_rows(given: Any, rows: Any) -> Any:
    """These rows, in the shape that all of them came in. rows: an array of places.

    >>> import numpy
    >>> take_rows({"size": [2.5, 3.5]}, numpy.array([1])), take_rows(("ava", "mia"), numpy.array([0]))
    ({'size': [3.5]}, ('ava',))
    """
    if has_targets(given):
        return tuple(take_rows(one, rows) for one in given)
    if isinstance(given, Mapping):
        return {name: take_rows(column, rows) for name, column in given.items()}
    if hasattr(given, "iloc"):  # pandas, whose index stays
        return given.iloc[rows]
    if hasattr(given, "select") and hasattr(given, "features"):  # Hugging Face
        return given.select(rows.tolist())
    if hasattr(given, "take"):  # Arrow, NumPy
        return given.take(rows, axis=0) if hasattr(given, "ndim") else given.take(rows.tolist())
    if isinstance(given, Sequence):
        return type(given)(given[row] for row in rows) if isinstance(given, tuple) else [given[row] for row in rows]
    return given[rows.tolist()]


def _columns(found: Predictions) -> dict[str, list[Any]]:
    """Numbers as numbers, and classes too where all that occur are whole numbers."""
    answers: list[Any] = [one.answer if one.value is None else one.value for one in found.predictions]
    classes = {label for one in found.predictions for label, _ in one.ranked}
    if found.task == "classification" and classes and all(_is_whole(label) for label in classes):
        answers = [int(answer) for answer in answers]
    name = "error" if found.task == "reconstruction" else f"predicted_{found.target or 'target'}"
    probabilities = [one.probability for one in found.predictions]
    if any(probability is None for probability in probabilities):
        return {name: answers}
    return {name: answers, f"{name}_probability": probabilities}


def _is_whole(label: str) -> bool:
    return label.removeprefix("-").isascii() and label.removeprefix("-").isdigit() and str(int(label)) == label
