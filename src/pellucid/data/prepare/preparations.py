"""Preparations from JSON: a run may come from someone else, so everything is checked before it is believed."""

import math
from typing import Any, TypeAlias

from pellucid.data.prepare.image_examples import LARGEST_SIDE, ImagePreparation
from pellucid.data.prepare.table_examples import CategoryColumn, NumericColumn, TablePreparation
from pellucid.data.readers.pictures import MODES
from pellucid.errors import PellucidError, quoted

Preparation: TypeAlias = TablePreparation | ImagePreparation

TASKS = ("classification", "regression", "reconstruction")


def preparation_from_json(content: Any) -> Preparation:
    """The preparation that `to_json` described.

    >>> gray = ImagePreparation(size=(8, 8), mode="gray", mean=(0.0,), deviation=(1.0,), classes=("cat", "dog"))
    >>> preparation_from_json(gray.to_json()) == gray
    True
    """
    kind = content.get("kind") if isinstance(content, dict) else ""
    if kind == TablePreparation.kind:
        return _table(content)
    if kind == ImagePreparation.kind:
        return _images(content)
    raise _damaged_preparation(f"its kind is {quoted(str(kind))}")


def _table(content: dict[str, Any]) -> TablePreparation:
    _require_keys(content, {"kind", "numeric", "categories", "target", "task", "classes", "mean", "deviation"})
    numeric = tuple(_numeric(column) for column in _list(content, "numeric"))
    categories = tuple(_category(column) for column in _list(content, "categories"))
    target = _text(content, "target", can_be_empty=True)
    names = [*(column.name for column in numeric), *(column.name for column in categories)]
    if not names or len({*names, target}) != len(names) + 1:
        raise _damaged_preparation("it has no columns, or one of them twice")
    task, classes = _task_and_classes(content)
    if not target and (classes or task != "reconstruction"):
        raise _damaged_preparation("it has no target")
    return TablePreparation(
        numeric, categories, target, task, classes, _number(content, "mean"), _deviation(content, "deviation")
    )


def _images(content: dict[str, Any]) -> ImagePreparation:
    _require_keys(content, {"kind", "size", "mode", "mean", "deviation", "classes", "task"})
    size = _list(content, "size")
    if len(size) != 2 or not all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in size):
        raise _damaged_preparation("its size is no width and height")
    mode = _text(content, "mode")
    n_channels = 3 if mode == "rgb" else 1
    mean, deviation = _list(content, "mean"), _list(content, "deviation")
    if mode not in MODES or len(mean) != n_channels or len(deviation) != n_channels:
        raise _damaged_preparation("its mode and its channels do not agree")
    task, classes = _task_and_classes(content)
    if not classes:
        raise _damaged_preparation("it has no classes")
    return ImagePreparation(
        size=(size[0], size[1]),
        mode=mode,
        mean=tuple(_number({"mean": value}, "mean") for value in mean),
        deviation=tuple(_deviation({"deviation": value}, "deviation") for value in deviation),
        classes=classes,
        task=task,
    )


def _numeric(column: Any) -> NumericColumn:
    _require_keys(column, {"name", "mean", "deviation", "has_gaps"})
    if not isinstance(column["has_gaps"], bool):
        raise _damaged_preparation("has_gaps is no yes or no")
    return NumericColumn(
        _text(column, "name"), _number(column, "mean"), _deviation(column, "deviation"), column["has_gaps"]
    )


def _category(column: Any) -> CategoryColumn:
    _require_keys(column, {"name", "values"})
    return CategoryColumn(_text(column, "name"), _different_texts(column, "values"))


def _task_and_classes(content: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    task, classes = _text(content, "task"), _different_texts(content, "classes")
    if task not in TASKS:
        raise _damaged_preparation(f"there is no task {quoted(task)}")
    is_fitting = len(classes) >= 2 if task == "classification" else not classes if task == "regression" else True
    if not is_fitting:
        raise _damaged_preparation(f"{len(classes)} classes do not fit the task {task}")
    return task, classes


def _require_keys(content: Any, keys: set[str]) -> None:
    if not isinstance(content, dict) or set(content) != keys:
        raise _damaged_preparation(f"it wants {', '.join(sorted(keys))}")


def _list(content: dict[str, Any], key: str) -> list[Any]:
    if not isinstance(content[key], list):
        raise _damaged_preparation(f"{key} is no list")
    found: list[Any] = content[key]
    return found


def _text(content: dict[str, Any], key: str, *, can_be_empty: bool = False) -> str:
    value = content[key]
    if not isinstance(value, str) or not (value or can_be_empty):
        raise _damaged_preparation(f"{key} is no text")
    return value


def _different_texts(content: dict[str, Any], key: str) -> tuple[str, ...]:
    texts = _list(content, key)
    if not all(isinstance(text, str) for text in texts) or len(set(texts)) != len(texts):
        raise _damaged_preparation(f"{key} are no different texts")
    return tuple(texts)


def _number(content: dict[str, Any], key: str) -> float:
    value = content[key]
    # A whole number in JSON may be larger than any float.
    is_number = isinstance(value, float) or (type(value) is int and abs(value) < 2**1000)
    if not is_number or not math.isfinite(value):
        raise _damaged_preparation(f"{key} is no finite number")
    return float(value)


def _deviation(content: dict[str, Any], key: str) -> float:
    value = _number(content, key)
    if value <= 0:
        raise _damaged_preparation(f"{key} is not above 0")
    return value


def _damaged_preparation(why: str) -> PellucidError:
    return PellucidError(f"the stored preparation is damaged: {why}", fix="Take the file from a copy of the run")
