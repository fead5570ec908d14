"""Why shapes disagree, in words: what a layer was fed, what it wanted, how that came, and what mends it."""

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.tables import Part, indent
from pellucid.figures.words.notation import cut_end, end_sentence
from pellucid.records import Mistake, Repair, RepairChange, ShapeStep, ShapeXray, SizeOrigin, Statement

LONGEST_CHAIN = 12  # steps that are shown
FED = {
    "count": "{n}{factors} {units}",
    "several": "a {container} of {shapes}",
    "rank": "{n_dimensions} dimensions {shape}",
    "one-row": "one number for each channel {shape}",
    "sizes": "{product} features",
    "type": "numbers of the type {type}",
    "index": "the number {n}",
    "places": "{places} places of {shape}",
    "operation": "{pair} in {name}{as_sizes}",
}
WANTED = {
    "count": "{n} {units}{argument_of} {layer}",
    "one-tensor": "one tensor",
    "dimensions": "({words})",
    "ranks": "{ranks} dimensions",
    "two-rows": "at least two",
    "sizes": "{product} features of {layer}",
    "whole-numbers": "whole numbers, of the type int64",
    "index": "0 to {last}: num_embeddings of {layer}",
    "window": "at least {window}: the window of {layer}",
    "type": "the type {type} of its weights",
}
WANTED_BY_OPERATION = {
    "matmul": "the last size of the first equal to the last but one of the second",
    "mm": "the second size of the first equal to the first of the second",
    "bmm": "equal batches, and the last size of the first equal to the middle one of the second",
    "cat": "equal sizes in all dimensions but one",
    "stack": "equal sizes",
    "view": "the same number of numbers in both shapes",
    "reshape": "the same number of numbers in both shapes",
}
CHANGES = {
    "replace": "{new} in place of {old}",
    "before": "{new} before {layer}",
    "flatten-and-replace": "nn.Flatten() before {layer}, and {new} in its place",
    "code": "{new}",
    "fewer-positions": "inputs of at most {n} positions",
    "whole-inputs": "inputs of whole numbers",
    "larger-input": "an input of {shape}",
    "more-rows": "a batch of at least two rows",
    "divisor": "{name} = {new}, which divides {width}, in place of {old}",
}
REASONS = {
    "batch-of-one": "a batch of one",
    "channel": "a channel",
    "batch-and-channel": "a batch and a channel",
    "channels-last": "the channels stood last",
    "several-outputs": "{before} puts out several, as outputs, state",
    "last-step": "the last step of {before}",
    "such-as": "such as {example}",
    "statistics": "it uses the statistics of training",
}


def failure_parts(failure: ShapeXray) -> Iterator[Part]:
    """Why a forward failed, how the shapes came there, and what mends it."""
    yield Text(end_sentence(printable(failure_sentence(failure))), "bold red")
    where = printable(f"{failure.kind} {failure.path}".strip()) + f", {printable(failure.where)}" * bool(failure.where)
    place = origin_place(failure.origin)
    fed = fed_words(failure) + (f", {place}" if place else "")
    lines = [("in", where), ("fed", fed), ("wanted", wanted_words(failure)), ("torch says", failure.error)]
    for label, words in lines:
        if words:
            yield indent(Text.assemble((f"{label:<11}", "dim"), printable(words)))
    if failure.chain:
        yield Text("The way of the shapes", "bold")
        yield from (indent(Text(cut_end(line, 112))) for line in chain_lines(failure))
    if failure.repairs:
        yield Text("Tried, and it works", "bold")
        for repair in failure.repairs:
            yield indent(Text(printable("; ".join(map(change_words, repair.changes))), "green"))
    yield Text("")


def mistake_parts(mistake: Mistake) -> Iterator[Part]:
    """One mistake in what was written, with a caret under it."""
    yield Text(end_sentence(printable(mistake.description)), "bold red")
    yield from (Text(printable(line)) for line in mistake.excerpt.splitlines())
    yield indent(Text(f"{end_sentence(printable(mistake.fix))} It was read as if it were so."), Text(""))


def failure_sentence(failure: ShapeXray) -> str:
    """The whole in one sentence.

    >>> fed = Statement("count", {"n": 144, "unit": "features"})
    >>> seen = ShapeXray("1", "Linear", "", "RuntimeError: ...", "Linear(120, 10)", "", fed, SizeOrigin((16, 3, 3)))
    >>> change = RepairChange("1", Statement("replace", {}), ("nn.Linear(144, 10)",))
    >>> failure_sentence(seen._replace(repairs=(Repair((change,)),)))
    'Linear(120, 10) is fed 144 = 16·3·3 features: nn.Linear(144, 10) works'
    """
    name = failure.layer or f"{failure.kind} {printable(failure.path)}".strip()
    if failure.fed is None:
        hook = f"the hook {failure.hook} of " if failure.hook else ""
        what = f"{hook}{name} raised {printable(failure.error)}"
    elif failure.fed.kind == "operation":
        what = f"{name} computes {fed_words(failure)}, which torch refuses"
    else:
        what = f"{name} is fed {fed_words(failure)}"
    if failure.repairs:
        return f"{what}: {repair_words(failure.repairs[0])} works"
    wanted = wanted_words(failure)
    return f"{what}; wanted: {wanted}" if wanted else what


def repair_words(repair: Repair) -> str:
    """What stands in the sentence: the new layers themselves, where they are the repair."""
    return "; ".join(", ".join(change.writes) or _fill(CHANGES, change.change) for change in repair.changes)


def change_words(change: RepairChange) -> str:
    """One change, and why.

    >>> change_words(RepairChange("", Statement("code", {"new": "x[None]"}), (), Statement("batch-of-one", {})))
    'x[None]: a batch of one'
    """
    reason = f": {_fill(REASONS, change.reason)}" if change.reason else ""
    return _fill(CHANGES, change.change) + reason


def fed_words(failure: ShapeXray) -> str:
    """What came, and how its number was made."""
    return _fill(FED, failure.fed, factors=_factors(failure.origin)) if failure.fed else ""


def wanted_words(failure: ShapeXray) -> str:
    wanted = failure.wanted
    if wanted is not None and wanted.kind == "operation":
        equal = "sizes that are equal, or one of them 1" if wanted.facts.get("must_match") else ""
        return WANTED_BY_OPERATION.get(str(wanted.facts.get("name")), equal)
    return _fill(WANTED, wanted) if wanted else ""


def origin_place(origin: SizeOrigin | None) -> str:
    """Where a number comes from.

    >>> origin_place(SizeOrigin((16, 3, 3), shape=(2, 16, 3, 3), layer="pool"))
    'of (2, 16, 3, 3) that pool puts out'
    """
    if origin is None or not origin.shape:
        return ""
    if not origin.layer:
        return f"of the input {shape_words(origin.shape)}"
    place = f"of {shape_words(origin.shape)} that {origin.layer} {'is given' if origin.is_given else 'puts out'}"
    return f"of both directions, {place}" if origin.is_both_directions else place


def _factors(origin: SizeOrigin | None) -> str:
    sign = " + " if origin and origin.is_sum else "·"
    return f" = {sign.join(map(str, origin.factors))}" if origin and origin.factors else ""


def chain_lines(failure: ShapeXray) -> list[str]:
    """Every shape from the input to where it failed, the middle left out where it is long."""
    lines = [_step_line(step, failure) for step in failure.chain]
    if len(lines) > LONGEST_CHAIN:
        left_out = len(lines) - LONGEST_CHAIN
        lines = [lines[0], f"… {left_out} more", *lines[-(LONGEST_CHAIN - 1) :]]
    return lines


def _step_line(step: ShapeStep, failure: ShapeXray) -> str:
    came, made = _shapes(step.inputs), _shapes(step.outputs) or "no tensor"
    if step.kind == "input":
        return f"input: {made}"
    if step.kind == "operation":
        return f"in forward: {fed_words(failure)} -> fails"
    return f"{printable(step.name) or 'in forward'}: {came} -> {'fails' if step.is_failed else made}"


def shape_words(shape: Sequence[object]) -> str:
    """
    >>> shape_words((2, 16, 3, 3)), shape_words((5,))
    ('(2, 16, 3, 3)', '(5)')
    """
    return f"({', '.join(map(str, shape))})"


def _shapes(shapes: Sequence[Sequence[object]]) -> str:
    return ", ".join(map(shape_words, shapes))


def _fill(sentences: Mapping[str, str], said: Statement, factors: str = "") -> str:
    """The sentence of a fact, with all that can be made of its numbers."""
    facts = said.facts
    shape, shapes, sizes = (_listed(facts.get(name)) for name in ("shape", "shapes", "sizes"))
    unit = str(facts.get("unit", ""))
    return sentences[said.kind].format(
        **{name: value for name, value in facts.items() if name not in ("shape", "shapes", "sizes", "ranks")},
        factors=factors,
        units=unit if facts.get("n") != 1 or unit == "features" else unit.removesuffix("s"),
        argument_of=f": {facts['argument']} of" if facts.get("argument") else " of",
        before=facts.get("layer") or "what comes before",
        shape=shape_words(shape),
        shapes=_shapes(shapes),
        pair=" and ".join(map(shape_words, shapes)),
        n_dimensions=len(shape),
        product="·".join(map(str, sizes)),
        places="×".join(map(str, shape[2:])),
        window="×".join(map(str, sizes)),
        as_sizes=f" as {shape_words(sizes)}" if sizes else "",
        ranks=" or ".join(map(str, _listed(facts.get("ranks")))),
        words=", ".join(map(str, _listed(facts.get("names")))),
    )


def _listed(value: object) -> list[list[object]]:
    """A tuple of a record, or the list that it is after a way through JSON."""
    return list(value) if isinstance(value, list | tuple) else []
