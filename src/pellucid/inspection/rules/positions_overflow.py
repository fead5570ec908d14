"""A table of positions has an end: what lies beyond it fails loudly, or is silently given a number that is taken.

Seen are the very numbers that tables are asked for. Then the copy reads longer rows, up to the first that it cannot.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import first_line, fixed_rng
from pellucid.inspection.instrument.recording import Recording, part_name, record
from pellucid.inspection.instrument.specimen import stated
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

LONGEST = 1024  # tokens that are tried
_CONTEXT = (
    *("context", "context_length", "context_size", "block_size", "max_len", "max_length", "max_seq_len", "seq_len"),
    *("n_positions", "n_ctx", "max_position_embeddings", "max_sequence_length"),
)


class PositionTable(NamedTuple):
    """A look-up of positions."""

    path: str
    size: int
    asked: tuple[int, ...]  # for each place of a row

    @property
    def repeats_at(self) -> int | None:
        """The first place that gets another number than the one after the last."""
        return next((at for at in range(1, len(self.asked)) if self.asked[at] != self.asked[at - 1] + 1), None)


def check(specimen: Specimen) -> Findings:
    if specimen.tokens is None or specimen.tokens.shape[1] < 2:
        return
    copied = specimen.copy("eval")
    time = specimen.tokens.shape[1]
    as_it_is = _record_at_length(copied, time)
    if as_it_is is None:
        yield from _too_long_already(copied, time)
        return
    if _record_at_length(copied, time - 1) is None:
        return  # it reads rows of one length only
    longest, reads = _longest(copied, time)
    for seen in (as_it_is, reads):
        if (repeated := next((table for table in _tables(seen) if table.repeats_at is not None), None)) is not None:
            yield _silent(repeated, time)
            return
    tables = _tables(reads)
    named = f" (the table of {part_name(tables[0].path)} has {tables[0].size})" if tables else ""
    said = stated(specimen.model, _CONTEXT)
    told = next(((name, length) for name, length in said if type(length) is int), None)
    if longest >= _most(time):
        seen_text = f"rows of {longest} tokens are read, {longest / time:.3g} times as long as these"
        yield Finding.sound("the model", seen_text, "no position runs out there")
    elif told is not None and told[1] > longest:
        seen_text = (
            f"{told[0]} is {told[1]}, and rows of more than {longest} tokens fail{named}: {_why(copied, longest + 1)}"
        )
        fix = f"make the table as long as {told[0]}"
        yield Finding.suspicious("the model", seen_text, "it cannot read what it says it can", fix)
    else:
        seen_text = f"rows of up to {longest} tokens are read{named}, these have {time}"
        yield Finding.sound("the model", seen_text, f"beyond that it fails, and says so: {_why(copied, longest + 1)}")


def _silent(table: PositionTable, time: int) -> Finding:
    at = table.repeats_at
    assert at is not None
    is_now = at < time
    number = table.asked[at]
    how = "stays" if number == table.asked[at - 1] else "begins again"
    return Finding.suspicious(
        part_name(table.path),
        f"position {at} gets number {number}, which is taken: from there on it {how}; the table has {table.size}",
        "those places cannot be told apart"
        + ("" if is_now else f", which begins beyond the {time} tokens of this batch"),
        f"make the table {max(len(table.asked), time)} long, or refuse longer rows",
    )


def _too_long_already(copied: Specimen, time: int) -> Findings:
    shorter = next((length for length in range(time - 1, 0, -1) if _record_at_length(copied, length) is not None), None)
    if shorter is None or shorter < 2:
        return
    seen = f"rows have {time} tokens, and the longest that is read has {shorter}: {_why(copied, time)}"
    means = "positions end before these rows do"
    fix = f"make the table {time} long, or cut the rows to {shorter}"
    yield Finding.broken("the model", seen, means, fix, again="model(*inputs)")


def _most(time: int) -> int:
    return max(time + 1, min(8 * time, LONGEST))


def _longest(copied: Specimen, time: int) -> tuple[int, Recording]:
    """The longest row that is read, between what came and the most that is tried, and how it was read."""
    low, high = time, _most(time) + 1
    best = _record_at_length(copied, time)
    assert best is not None
    middle = high - 1  # the longest first: mostly it is read
    while low + 1 < high:
        seen = _record_at_length(copied, middle)
        if seen is None:
            high = middle
        else:
            low, best = middle, seen
        middle = (low + high) // 2
    return low, best


def _record_at_length(copied: Specimen, length: int) -> Recording | None:
    """A look at rows of this length; one row, for attention to long ones is costly."""
    return record(replace(copied, inputs=_of_length(copied, length)), frozenset({"embedding"}))


def _of_length(copied: Specimen, length: int) -> tuple[Any, ...]:
    tokens = copied.tokens
    assert tokens is not None
    time, rows = tokens.shape[1], len(tokens)

    def fit(one: Any) -> Any:
        if not isinstance(one, Tensor) or not one.dim() or len(one) != rows:
            return one
        if one.dim() == 2 and one.shape[1] == time:
            one = one.repeat(1, -(-length // time))[:, :length]
        return one[:1]

    return tuple(fit(one) for one in copied.inputs)


def _why(copied: Specimen, length: int) -> str:
    """What torch says of rows of this length."""
    with fixed_rng(), torch.no_grad():
        try:
            copied.model(*_of_length(copied, length))
        except Exception as error:
            return f"{type(error).__name__}, {first_line(error)[:80].strip(' .') or 'without a word'}"
    return "it is read now"


def _tables(seen: Recording) -> list[PositionTable]:
    """Look-ups of numbers that count up from place to place, the same for every row."""
    found = []
    for call in seen.functions:
        numbers, table = call.given, call.value_of("weight", 1, None)
        if numbers is None or not isinstance(table, Tensor) or numbers.is_floating_point():
            continue
        rows = numbers.reshape(-1, numbers.shape[-1]) if numbers.dim() else numbers.reshape(1, 1)
        asked = tuple(rows[0].tolist())
        counts_up = len(asked) >= 2 and asked[:2] == (asked[0], asked[0] + 1) and asked[0] in (0, 1, 2)
        if counts_up and bool((rows == rows[0]).all()) and not _is_token(numbers, seen):
            found.append(PositionTable(call.path, table.shape[0], asked))
    return found


def _is_token(numbers: Tensor, seen: Recording) -> bool:
    """Whether these are the tokens themselves, which may count up by chance."""
    whole = seen.modules[-1].given
    return whole is not None and whole.shape == numbers.shape and bool((whole == numbers).all())


RULE = DoctorRule(
    name="positions-overflow",
    proves="that positions run out: silently, loudly within these rows, or below the length that is promised",
    how="watches what tables of positions are asked for, and lets a copy read longer rows",
    check=check,
    cannot_see="lengths that are longer than was tried",
    again="model(x.repeat(1, 2))",
)
