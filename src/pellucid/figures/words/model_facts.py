"""What is said of a model before anything it made is shown, and how such pages are printed."""

import io
import math

from rich.console import Console, Group, RenderableType
from rich.table import Table

from pellucid.errors import printable
from pellucid.records import Loss, ModelFacts, TrainedFacts

WIDTH = 120  # columns assumed where the output is no terminal


def facts_lines(facts: ModelFacts | TrainedFacts) -> list[str]:
    """The data, the model, its loss on dev beside the simplest models', and the size of its tables."""
    if isinstance(facts, TrainedFacts):
        return _trained_lines(facts)
    lines = [facts.source, f"{facts.name}, counted on {facts.n_train:,} tokens of train"]
    if facts.dev is None:
        lines.append(
            f"on train {nats(facts.train)} a token; there is no dev side, so how it does elsewhere is not known"
        )
    else:
        lines.append(f"on dev {nats(facts.dev)} a token, on train {facts.train.nats:.4f}")
        lines.append("beside it on dev: " + ", ".join(f"{name} {loss:.4f}" for name, loss in facts.baselines))
    if facts.dev is not None and facts.dev.n_impossible:
        lines.append(
            f"infinite, because {facts.dev.n_impossible:,} of {facts.dev.n_tokens:,} tokens of dev never followed "
            "their context in train; --s 0.1 mends it"
        )
    if facts.trials:
        best = {trial.order: math.inf for trial in facts.trials}
        for trial in facts.trials:
            best[trial.order] = min(best[trial.order], trial.dev)
        tried = ", ".join(f"{order}: {loss:.4f}" for order, loss in best.items())
        lines.append(f"chosen on dev from {len(facts.trials)}; by n {tried}")
    lines.append(f"a full table has {size(facts.n_entries)} entries; {facts.n_stored:,} numbers are kept")
    return lines


def _trained_lines(facts: TrainedFacts) -> list[str]:
    """The data, the network and its run, and its loss beside counting's."""
    kept = "the best on dev" if facts.is_finished else "the best so far, as the run is not finished"
    lines = [
        facts.source,
        f"{facts.name} of the run {facts.run}, {facts.parameters:,} parameters, trained on {facts.n_train:,} tokens",
    ]
    if facts.dev is None or facts.train is None:
        lines.append(f"weights of step {facts.step:,}; how they do on dev is not known")
    else:
        lines.append(f"on dev {nats(facts.dev)} a token, on train {facts.train.nats:.4f}")
        lines.append(f"weights of step {facts.step:,}, {kept}")
    if facts.baselines:
        lines.append("beside it on dev: " + ", ".join(f"{name} {loss:.4f}" for name, loss in facts.baselines))
    return lines


def nats(loss: Loss) -> str:
    """
    >>> nats(Loss(2.0, 100))
    '2.0000 nats (2.885 bits, perplexity 7.389)'
    """
    if loss.nats == math.inf:
        return "infinite nats"
    return f"{loss.nats:.4f} nats ({loss.bits:.3f} bits, perplexity {loss.perplexity:.4g})"


def size(n: int) -> str:
    """
    >>> size(14_348_907), size(27**20)
    ('14,348,907', '4.2e28')
    """
    return f"{n:,}" if n < 10**15 else f"{n:.1e}".replace("e+", "e")


def table(*columns: tuple[str, str]) -> Table:
    """A table without lines, with one column for each (heading, "left" or "right")."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading, side in columns:
        made.add_column(heading, justify="right" if side == "right" else "left", no_wrap=True)
    return made


def cut(text: str, longest: int) -> str:
    """The text in printable form, its end left out where it is too long.

    >>> cut("emma\\n", 9), cut("x" * 20, 5)
    ('emma\\\\n', 'xxxx…')
    """
    shown = printable(text)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def show(*parts: RenderableType) -> None:
    """Print on stdout: with colours in a terminal, else as plain lines without blanks at their ends."""
    # Brackets in a text of the data are no markup.
    console = Console(highlight=False, markup=False)
    if console.is_terminal:
        console.print(Group(*parts))
        return
    plain = Console(file=io.StringIO(), width=WIDTH, highlight=False, markup=False, color_system=None)
    with plain.capture() as capture:
        plain.print(Group(*parts))
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))
