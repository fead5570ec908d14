"""What was seen of a module, in words: its parts and why shapes disagree, what the doctor proved, what a watch saw."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.tables import Part, Table, TableColumn, heading, indent, note_lines, right
from pellucid.figures.words.notation import count_of, cut_end, duration, end_sentence, memory_size, percent, with_prefix
from pellucid.figures.words.notes import note_sentences, plain_with_notes
from pellucid.figures.words.shapes import failure_parts, failure_sentence, mistake_parts
from pellucid.records import (
    CostScaling,
    Diagnosis,
    Finding,
    Health,
    Inspection,
    ModuleRow,
    NamedShape,
    ReceptiveField,
    RuleExplanation,
    SilentBroadcast,
    Versus,
    VersusRow,
    Watched,
)

STYLES = {"broken": "bold red", "suspicious": "yellow", "note": "", "sound": "green"}
WATCH_FIGURES = ("layer-histograms", "update-ratios", "gradient-norms", "unit-maps")  # that can be drawn of a watch
MOST_ROWS, MOST_LAYERS = 150, 24
LETTERS = {
    "batch": "b",
    "time": "t",
    "features": "f",
    "channels": "c",
    "height": "h",
    "width": "w",
    "depth": "d",
    "layers": "l",
    "batch·time": "bt",
}


def inspection_parts(seen: Inspection) -> Iterator[Part]:
    """What it is, what is wrong with it, its parts, and what they cost together."""
    for mistake in seen.mistakes:
        yield from mistake_parts(mistake)
    if seen.failure:
        yield from failure_parts(seen.failure)
    if seen.mended:
        yield Text("The whole, mended", "bold")
        yield indent(Text("\n".join(map(printable, seen.mended.splitlines()))), Text(""))
    yield Text(cut_end(" ".join(seen.name.split()) or seen.kind, 110), "bold")
    yield module_table(seen)
    if len(seen.rows) > MOST_ROWS:
        yield Text(f"… and {len(seen.rows) - MOST_ROWS:,} more rows; --json has them all", "dim")
    if legend := _legend(seen.rows):
        yield Text(legend, "dim")
    yield Text("")
    if seen.failure:
        yield Text("Up to where it failed:", "dim")
    yield from (Text(line) for line in total_lines(seen))
    for row in seen.rows[:MOST_ROWS]:
        if row.tied:
            pairs = ", ".join(f"{name} = {other}" for name, other in row.tied)
            yield Text(f"tied: {printable(row.path)}: {printable(pairs)}")
    for found in seen.broadcasts:
        yield Text(f"silent broadcast: {end_sentence(printable(broadcast_sentence(found, seen.kind)))}", "yellow")
    yield from note_lines((*_notes_on_rows(seen.rows), *inspection_notes(seen), *cost_notes(seen)))


def broadcast_sentence(found: SilentBroadcast, whole: str) -> str:
    """What meets what, where, and how to keep it from that. whole: the kind of the whole module.

    >>> broadcast_sentence(SilentBroadcast("", "model.py:12", "-", (4, 1), (4,)), "Loss")[:60]
    '(4, 1) - (4) is (4, 4) in Loss (model.py:12): each of the 4 '
    """
    longer, shorter = sorted((found.left, found.right), key=len, reverse=True)
    n = shorter[-1]
    both = tuple(map(max, longer, (*(1 for _ in longer[len(shorter) :]), *shorter)))
    left, right, made, long = (f"({', '.join(map(str, sizes))})" for sizes in (found.left, found.right, both, longer))
    is_sign = len(found.operation) == 1
    said = f"{left} {found.operation} {right}" if is_sign else f"{found.operation} of {left} and {right}"
    place = f"{found.path or whole}" + f" ({found.line})" * bool(found.line)
    return (
        f"{said} is {made} in {place}: each of the {n} rows meets all {n}. If that is not meant, take the last "
        f"dimension of {long} away with .squeeze(-1)"
    )


def module_table(seen: Inspection) -> Table:
    """One row for each module, in the order of its first call."""
    has_run = any(row.n_calls for row in seen.rows)
    has_times = seen.seconds > 0
    made = Table(
        *("module", "type"),
        *["in", "out"] * has_run,
        *right("parameters", *["FLOPs", "memory"] * has_run, *["time"] * has_times),
    )
    failed = seen.failure.path if seen.failure else None
    for row, name in zip(seen.rows[:MOST_ROWS], indent_paths(seen.rows[:MOST_ROWS]), strict=True):
        cells = [cut_end(name, 26), cut_end(row.kind, 18)]
        if has_run:
            # Only a module that holds no other can be where it failed; those around it fail with it.
            came_back = bool(row.outputs)
            ended_here = "fails" if failed is not None and row.n_calls and not came_back else "" if row.n_calls else "–"
            cells += [_shape_words(row.inputs), _shape_words(row.outputs) or ended_here]
        cells += [f"{row.parameters:,}" if row.parameters else ""]
        if has_run:
            cells += [
                with_prefix(row.flops_by_operation),
                memory_size(row.activation_bytes) if row.activation_bytes else "",
            ]
        if has_times:
            cells += [percent(row.share_of_time) if row.n_calls else ""]
        made.add(*cells, style="bold red" if row.path == failed and seen.failure else "")
    return made


def total_lines(seen: Inspection) -> Iterator[str]:
    """The sums, in words."""
    ties = seen.parameters_with_ties - seen.parameters
    tied = f", {ties:,} more if nothing were tied" if ties else ""
    frozen = "" if seen.trainable == seen.parameters else f", {seen.trainable:,} of them trained"
    buffers = f", and {count_of(seen.buffers, 'number')} in buffers" if seen.buffers else ""
    yield f"{count_of(seen.parameters, 'parameter')} in {memory_size(seen.parameter_bytes)}{frozen}{tied}{buffers}"
    if not any(row.n_calls for row in seen.rows):
        return
    if seen.flops_by_formula is None:
        yield f"{seen.flops_by_operation:,} FLOPs by operation; by formula it is not known"
    elif seen.flops_by_formula == seen.flops_by_operation:
        yield f"{seen.flops_by_formula:,} FLOPs by formula, and the same by operation"
    else:
        yield f"{seen.flops_by_formula:,} FLOPs by formula, {seen.flops_by_operation:,} by operation"
    depth = f"{count_of(seen.sequential_depth, 'module')} with parameters in a row"
    took = f", {seen.seconds * 1e3:.3g} ms a forward" if seen.seconds else ""
    yield f"{memory_size(seen.activation_bytes)} of activations, {depth}{took}"
    if seen.receptive_field:
        yield field_sentence(seen.receptive_field)
    if seen.cache_bytes_per_token is not None:
        yield f"{memory_size(seen.cache_bytes_per_token)} of keys and values to keep for each token"
    if seen.scaling:
        yield scaling_sentence(seen.scaling)


def row_notes(row: ModuleRow) -> Iterator[str]:
    """What is odd about one module: read without being called, or counted in two ways that do not agree."""
    if row.readers:
        yield f"never called, read by {', '.join(path or 'the whole' for path in row.readers)}"
    if row.flops_by_formula is None:
        yield f"no formula: {row.own_flops:,} FLOPs of its own by operation"
    elif row.flops_by_formula != row.own_flops:
        yield f"the two counts disagree: {row.flops_by_formula:,} by formula, {row.own_flops:,} by operation"


def _notes_on_rows(rows: Sequence[ModuleRow]) -> list[str]:
    """What is odd about modules, each oddness said once with how many modules have it."""
    modules: dict[str, list[str]] = {}
    for row in rows:
        for note in row_notes(row):
            modules.setdefault(note, []).append(row.path or row.kind)
    more = {note: f" and {len(paths) - 1:,} more" * (len(paths) > 1) for note, paths in modules.items()}
    return [f"{paths[0]}{more[note]}: {note}" for note, paths in modules.items()]


def cost_notes(seen: Inspection) -> Iterator[str]:
    """Where the two counts of the whole do not agree, or are not whole."""
    without = [row.path or row.kind for row in seen.rows if row.flops_by_formula is None]
    by_formula = sum(row.flops_by_formula or 0 for row in seen.rows)
    if without:
        few = ", ".join(without[:3]) + (f" and {len(without) - 3} more" if len(without) > 3 else "")
        yield f"by formula it is at least {by_formula:,} FLOPs: there is none for {few}"
    elif by_formula != seen.flops_by_operation:
        yield f"the two counts disagree: {by_formula:,} FLOPs by formula, {seen.flops_by_operation:,} by operation"
    if seen.uncounted:
        yield f"not counted, for no rule is known: {', '.join(seen.uncounted)}"


def scaling_sentence(scaling: CostScaling) -> str:
    """
    >>> scaling_sentence(CostScaling((1, 2), (602, 1208), (0.0, 600.0, 2.0), 301))
    'a sequence of n costs 600·n + 2·n² FLOPs: n² overtakes the rest from n = 301'
    """
    if scaling.polynomial is None:
        return "the cost does not follow a + b·n + c·n²"
    a, b, _ = scaling.polynomial
    terms = [f"{one:,.0f}{name}" for one, name in zip(scaling.polynomial, ("", "·n", "·n²"), strict=True) if round(one)]
    says = f"a sequence of n costs {' + '.join(terms) or '0'} FLOPs".replace("+ -", "- ")
    if scaling.overtakes is not None:
        return f"{says}: n² overtakes the rest from n = {scaling.overtakes:,}"
    return f"{says}: in proportion to its length" if round(b) and not round(a) and len(terms) == 1 else says


def field_sentence(field: ReceptiveField) -> str:
    """The field by formula, and beside it by gradients where these do not agree.

    >>> field_sentence(ReceptiveField(2, (6,), (2,), None, None))
    '6 places of the input, 2 from one to the next, after 2 convolutions and poolings'
    """
    by_gradients = _times(field.measured) if field.measured else "not known"
    if field.reach is None:
        return f"not known by formula, since something is enlarged; by gradients {by_gradients}"
    windows = "one convolution or pooling" if field.n_windows == 1 else f"{field.n_windows} convolutions and poolings"
    says = f"{_times(field.reach)} places of the input, {_times(field.step)} from one to the next, after {windows}"
    if field.middle is None or field.middle == field.measured:
        return says
    return f"{says}; by gradients the middle sees {by_gradients}, by formula {_times(field.middle)}"


def _times(sizes: Sequence[int]) -> str:
    return "×".join(map(str, sizes))


def inspection_notes(seen: Inspection) -> Iterator[str]:
    """How it was looked at, and that what was guessed proves nothing."""
    yield from note_sentences(seen.notes)
    if seen.refused_guess:
        because = failure_sentence(seen.refused_guess)
        yield f"forward does not take what was guessed, which proves nothing: {because}; give an input"


def versus_parts(versus: Versus) -> Iterator[Part]:
    """Two modules side by side; where one of them fails, why."""
    for seen in (versus.left, versus.right):
        if seen.failure or seen.mistakes:
            yield Text(cut_end(seen.name or seen.kind, 110), "bold")
        for mistake in seen.mistakes:
            yield from mistake_parts(mistake)
        if seen.failure:
            yield from failure_parts(seen.failure)
    names = [cut_end(one.name or one.kind, 36) for one in (versus.left, versus.right)]
    made = Table("", *right(*names, "ratio"))
    for row in versus.rows:
        made.add(*versus_cells(row))
    yield made
    yield Text("")
    for says in versus_sentences(versus):
        yield Text(end_sentence(printable(says)))
    for seen in (versus.left, versus.right):
        broadcasts = (broadcast_sentence(found, seen.kind) for found in seen.broadcasts)
        notes = (*broadcasts, *inspection_notes(seen), *cost_notes(seen))
        yield from note_lines([f"{cut_end(seen.name or seen.kind, 36)}: {note}" for note in notes])


def versus_cells(row: VersusRow) -> tuple[str, str, str, str]:
    """What, left, right and ratio.

    >>> versus_cells(VersusRow("parameters", 1000, 2000)), versus_cells(VersusRow("milliseconds", 1.5, None))
    (('parameters', '1,000', '2,000', '2.00×'), ('milliseconds', '1.5', 'not known', ''))
    """

    def words(value: float | None) -> str:
        return "not known" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3g}"

    return row.quantity, words(row.left), words(row.right), "" if row.ratio is None else f"{row.ratio:.2f}×"


def versus_sentences(versus: Versus) -> Iterator[str]:
    """What two modules have of one another, in words."""
    left, right = versus.left, versus.right
    one, other = left.name or left.kind, right.name or right.kind
    if left.parameters == right.parameters:
        yield f"{one} and {other} have the same number of parameters"
    else:
        yield f"{one} has {left.parameters:,} parameters, {other} {right.parameters:,}"
    if left.sequential_depth and right.sequential_depth and left.seconds and right.seconds:
        yield (
            f"{other} waits for {right.sequential_depth} modules in a row, {one} for {left.sequential_depth}; "
            f"a forward takes it {right.seconds / left.seconds:.2f}× as long, for "
            f"{right.flops_by_operation / max(1, left.flops_by_operation):.2f}× the FLOPs"
        )
    for name, seen in ((one, left), (other, right)):
        if seen.scaling is not None:
            yield f"{name}: {scaling_sentence(seen.scaling)}"


def indent_paths(rows: Sequence[ModuleRow]) -> list[str]:
    """Each path, without that of the last row that holds it, and farther in than that; whole where it was never called.

    >>> blank = ModuleRow("", "", (), (), 0, (), 0, 0, 0, 0, 0.0, 0.0, n_calls=1)
    >>> indent_paths([blank._replace(path=path) for path in ("", "blocks.0", "blocks.0.norm", "head")])
    ['(whole)', 'blocks.0', '  norm', 'head']
    """
    open_paths: list[str] = []  # from the outermost to the last row
    names = []
    for row in rows:
        if not row.path or not row.n_calls:
            names.append(row.path or "(whole)")
            continue
        while open_paths and not row.path.startswith(f"{open_paths[-1]}."):
            open_paths.pop()
        above = f"{open_paths[-1]}." if open_paths else ""
        names.append("  " * len(open_paths) + row.path.removeprefix(above))
        open_paths.append(row.path)
    return names


def _shape_words(shapes: Sequence[NamedShape]) -> str:
    """Every shape in short; several that are equal once."""
    words = [short_shape(shape) for shape in shapes]
    if len(words) > 1 and len(set(words)) == 1:
        words = [f"{len(words)}× {words[0]}"]
    return cut_end(", ".join(words), 26)


def short_shape(shape: NamedShape) -> str:
    """A shape with a letter for each name.

    >>> short_shape(NamedShape((2, 8, 28), ("batch", "channels", ""))), short_shape(NamedShape((), ()))
    ('b2 c8 28', 'one number')
    """
    named = zip(shape.names, shape.sizes, strict=True)
    return " ".join(f"{LETTERS.get(name, '')}{size}" for name, size in named) or "one number"


def _legend(rows: Sequence[ModuleRow]) -> str:
    """The letters that were used."""
    used = {name for row in rows[:MOST_ROWS] for shape in (*row.inputs, *row.outputs) for name in shape.names}
    return ", ".join(f"{letter} {name}" for name, letter in LETTERS.items() if name in used)


def diagnosis_parts(diagnosis: Diagnosis, *, is_whole: bool = False) -> Iterator[Part]:
    """What a terminal shows; is_whole: also what was passed over, and how long each rule took."""
    yield Text(diagnosis_words(diagnosis), "bold red" if diagnosis.is_ill else "bold")
    yield from finding_parts(diagnosis.findings)
    n_unknown = sum(bool(rule.passed_over) for rule in diagnosis.rules)
    if is_whole:
        yield heading("Rules")
        made = Table("rule", *right("seconds"), TableColumn("passed over", "wrap"))
        for rule in diagnosis.rules:
            made.add(rule.rule, f"{rule.seconds:.2f}", rule.passed_over)
        yield indent(made)
    elif n_unknown:
        yield Text(f"\n{count_of(n_unknown, 'rule')} did not apply or could not tell; --all shows why", "dim")
    yield from note_lines(note_sentences(diagnosis.notes))


def explanation_parts(rule: RuleExplanation) -> Iterator[Part]:
    """What a terminal shows of a rule of the doctor."""
    yield Text(rule.name, "bold")
    causes = "whatever else is found" if rule.follows == ("any",) else ", ".join(rule.follows)
    for label, words in (
        ("proves", rule.proves),
        ("how", rule.how),
        ("can't see", rule.cannot_see),
        ("needs", ", ".join(rule.needs)),
        ("follows from", causes),
    ):
        if words:
            yield indent(Text.assemble((f"{label:<14}", "dim"), printable(words)))


def plain_diagnosis(diagnosis: Diagnosis) -> dict[str, object]:
    """The diagnosis as what JSON can hold, with whether anything is broken."""
    return {**plain_with_notes(diagnosis), "is_ill": diagnosis.is_ill}


def diagnosis_words(diagnosis: Diagnosis) -> str:
    """The whole in one line.

    >>> diagnosis_words(Diagnosis("net", (Finding("sound", "loss", "1.1 nats", "it starts unsure", ""),), (), 0.5))
    'net: nothing is broken; 1 thing proven sound, in 0.5 s'
    """
    found = Counter(finding.severity for finding in diagnosis.findings)
    grave = [f"{found[severity]} {severity}" for severity in ("broken", "suspicious") if found[severity]]
    if found["note"]:
        grave.append(count_of(found["note"], "note"))
    if not found["broken"]:
        grave.insert(0, "nothing is broken")
    sound = f"{count_of(found['sound'], 'thing')} proven sound"
    return printable(f"{diagnosis.name}: {', '.join(grave)}; {sound}, in {duration(diagnosis.seconds)}")


def finding_parts(findings: Sequence[Finding]) -> Iterator[Part]:
    """All findings: what is not sound in full, with what it means and what to try; what is sound in a line each."""
    for finding in findings:
        if finding.severity != "sound":
            yield from _grave_parts(finding)
    sound = [finding for finding in findings if finding.severity == "sound"]
    if sound:
        yield heading("Proven sound")
    for finding in sound:
        words = finding_heading(finding._replace(where=finding.rule or finding.where))
        yield indent(Text.assemble(("✓ ", "green"), printable(words)))


def _grave_parts(finding: Finding) -> Iterator[Part]:
    """One finding in full; what follows from another stands indented below it, without what to try."""
    yield Text("")
    severity = (finding.severity, STYLES.get(finding.severity, ""))
    rule = (printable(f"  [{finding.rule}]") if finding.rule else "", "dim")
    said = printable(f"  {end_sentence(finding_heading(finding))}")
    if finding.cause:
        yield indent(Text.assemble(("follows from it: ", "dim"), severity, said, rule))
        return
    yield Text.assemble(severity, said, rule)
    means, try_next = [end_sentence(words) if words else "" for words in (finding.means, finding.try_next)]
    for label, words in (("means", means), ("try", try_next)):
        if words:
            yield indent(Text.assemble((f"{label:<6}", "dim"), printable(words)))
    for number, line in enumerate(finding.again.splitlines()):
        # Code is never wrapped: cut in two, it would not run.
        label = "" if number else "again"
        yield indent(Text.assemble((f"{label:<6}", "dim"), printable(line), no_wrap=True, overflow="ignore"))


def finding_heading(finding: Finding) -> str:
    """Where, when and what was seen.

    >>> finding_heading(Finding("note", "head", "its bias is 0", "", "", step=1200))
    'head at step 1,200: its bias is 0'
    """
    at = f" at step {finding.step:,}" if finding.step else ""
    return f"{finding.where}{at}: {finding.seen}" if finding.where or at else finding.seen


def advice_words(finding: Finding) -> str:
    """What a finding means and what to try, as far as there is something to say.

    >>> advice_words(Finding("sound", "the first loss", "3.3 nats", "no step is lost", ""))
    'It means: no step is lost.'
    """
    parts = [("It means", finding.means), ("Try", finding.try_next)]
    return " ".join([f"{word}: {end_sentence(words)}" for word, words in parts if words])


def watch_parts(seen: Watched) -> Iterator[Part]:
    """What a terminal shows of someone's own loop: the findings, and every layer at the last look."""
    looks = count_of(len(seen.health), "look")
    yield Text(cut_end(f"{seen.name}: {count_of(len(seen.steps), 'step')}, {looks}", 110), "bold")
    yield from finding_parts(seen.findings)
    if seen.health:
        last = seen.health[-1]
        yield heading(f"Layers at step {last.step:,}")
        yield indent(layer_table(last))
        n_more = len(last.layers) - MOST_LAYERS
        if n_more > 0:
            yield Text(f"  … and {n_more:,} more in .report().health", "dim")
        if words := update_words(seen.health):
            yield Text(f"\n{words}")


def layer_table(look: Health) -> Table:
    """What every layer put out at one look, and the gradient that came back to it."""
    made = Table("layer", "kind", *right("units", "mean", "deviation", "flat", "gradient's deviation"))
    for layer in look.layers[:MOST_LAYERS]:
        flat = "" if layer.saturated is None else percent(layer.saturated)
        numbers = f"{layer.width:,}", f"{layer.mean:.3f}", f"{layer.deviation:.3f}", flat
        made.add(cut_end(layer.path, 40), cut_end(layer.kind, 20), *numbers, f"{layer.gradient_deviation:.1e}")
    return made


def update_words(health: Sequence[Health]) -> str:
    """The middle of all updates of each matrix, of the one that moves least to the one that moves most."""
    moved: dict[str, list[float]] = {}
    for look in health:
        for weight in look.weights:
            if len(weight.shape) >= 2 and weight.update_ratio > 0:
                moved.setdefault(weight.path, []).append(weight.update_ratio)
    if not moved:
        return ""
    ratios = sorted((median(each), path) for path, each in moved.items())
    (least, at_least), (most, at_most) = ratios[0], ratios[-1]
    return (
        f"updates of {least:.1e} ({cut_end(at_least, 40)}) to {most:.1e} ({cut_end(at_most, 40)}) of the matrices' "
        "own size, where about 1e-3 is usual"
    )
