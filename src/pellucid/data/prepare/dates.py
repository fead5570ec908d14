"""Dates as numbers that a network can read: year, month, day, day of the week and of the year, hour."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pellucid.data.kinds import Column, TableData

if TYPE_CHECKING:
    import polars

PARTS = ("year", "month", "day", "weekday", "day of year", "hour")
DATE = 10  # characters, as in 2024-12-31; the time begins after the one behind them


def date_part_name(column: str, part: str) -> str:
    """What a part of a column of dates is called.

    >>> date_part_name("sold", "month")
    'sold (month)'
    """
    return f"{column} ({part})"


def date_columns(table: TableData) -> tuple[str, ...]:
    """The columns that hold dates, which are texts that sort in time."""
    import polars

    return tuple(
        one.name for one in table.columns if one.kind == "order" and table.frame[one.name].dtype == polars.String
    )


def with_date_parts(table: TableData, names: Sequence[str]) -> TableData:
    """The table with a column of numbers behind it for each part of each of these columns, if it has them.

    A cell that is no day of the calendar is missing in all parts.
    """
    parts = [part for name in names if name in table.frame.columns for part in date_parts(table.frame[name])]
    if not parts:
        return table
    columns = (*table.columns, *(Column(part.name, "numeric", part.null_count()) for part in parts))
    return replace(table, frame=table.frame.with_columns(parts), columns=columns)


def date_parts(column: "polars.Series") -> "list[polars.Series]":
    """The parts of dates such as 2024-12-31, 2024/12/31 or 2024-12-31T18:30.

    >>> import polars
    >>> [part.to_list() for part in date_parts(polars.Series("sold", ["2024-12-31T18:30", "2024/01/01"]))]
    [[2024, 2024], [12, 1], [31, 1], [2, 1], [366, 1], [18.5, 0.0]]
    """
    import polars

    texts = column.cast(polars.String)
    days = texts.str.head(DATE).str.replace_all(r"[/.]", "-").str.to_date("%Y-%m-%d", strict=False)
    hours = texts.str.slice(DATE + 1, 2).cast(polars.Float64, strict=False).fill_null(0.0)
    minutes = texts.str.slice(DATE + 4, 2).cast(polars.Float64, strict=False).fill_null(0.0)
    hour = (hours + minutes / 60).set(days.is_null(), None)
    found = (days.dt.year(), days.dt.month(), days.dt.day(), days.dt.weekday(), days.dt.ordinal_day(), hour)
    return [values.alias(date_part_name(column.name, part)) for part, values in zip(PARTS, found, strict=True)]
