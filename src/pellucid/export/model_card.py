"""README.md of an export: what the model is, what it learned from, how good it is beside simple models, its limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pellucid import __version__
from pellucid.figures.tables import parts_text
from pellucid.figures.words.ladder import ladder_table
from pellucid.figures.words.notation import with_article
from pellucid.figures.words.training import config_words, data_lines, headline_words
from pellucid.records import ExportCheck

if TYPE_CHECKING:
    from pellucid.export.subject import Subject

WIDE = 160
LIBRARIES = {"hf": "transformers", "onnx": "onnx", "gguf": "gguf", "torch": "pytorch"}
GOES_ON = ("list", "text")


def write_card(subject: Subject, to: str, check: ExportCheck, use: tuple[str, ...], folder: Path) -> None:
    (folder / "README.md").write_text(card_text(subject, to, check, use), encoding="utf-8")


def card_text(subject: Subject, to: str, check: ExportCheck, use: tuple[str, ...]) -> str:
    """All of it is made from the run: nothing here was written by hand, and nothing is promised."""
    report = subject.report
    is_python = use[0].startswith(("from", "import"))
    parts = [
        _front_matter(subject, to),
        f"# {subject.name}",
        f"{with_article(report.rung.name).capitalize()} with {subject.model.n_parameters:,} parameters "
        f"({config_words(report.network.config)}), exported to {to} from a run of pellucid {__version__}.",
        *_without_counts(subject),
        "## Use",
        f"```{'python' if is_python else 'sh'}\n" + "\n".join(use) + "\n```",
        "## Data",
        "\n".join(f"- {line}" for line in [*data_lines(report.data), f"SHA-256 {report.data.fingerprint}"]),
        "Equal items are on one side of the split; choices were made on dev, and test was read once, at the end.",
        "## How good it is",
        "```text\n" + parts_text([ladder_table(report.ladder)], WIDE).rstrip() + "\n```",
        headline_words(report),
        "## Limits",
        "\n".join(f"- {line}" for line in _limits(subject)),
        "## Checked",
        f"On {check.n_inputs} inputs, {check.tool} and the network of the run differ by "
        f"{check.largest_difference:.1e} at most{_not_loaded(check)}. To make the run again: "
        f"`{' '.join(report.command)}`.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(subject: Subject, to: str) -> str:
    """What Hugging Face's pages read."""
    task = "pipeline_tag: text-generation\n" if subject.kind in GOES_ON and to in ("hf", "gguf") else ""
    return f"---\nlibrary_name: {LIBRARIES[to]}\n{task}tags:\n- pellucid\n- {subject.run.model}\n---"


def _without_counts(subject: Subject) -> list[str]:
    parts = subject.report.parts
    if not subject.is_network_only or parts is None:
        return []
    return [
        f"**Its counts are left out.** The run adds up an n-gram and this network. On {parts.n_tokens:,} tokens of dev "
        f"both together have {parts.both:.4f} nats a token and the network alone {parts.alone:.4f}; the table below is "
        "of both."
    ]


def _limits(subject: Subject) -> list[str]:
    report, found = subject.report, []
    if subject.kind in GOES_ON:
        found.append(f"It reads {len(subject.vocabulary):,} tokens ({report.data.tokens}) and no others.")
        longest = getattr(subject.model, "longest", 0)
        if longest < 1 << 60:
            found.append(f"It looks back on {longest:,} tokens at most.")
    if subject.kind == "table" and subject.table.dates:
        found.append(f"Dates ({', '.join(subject.table.dates)}) are taken apart into numbers before the network.")
    found.append(f"What it does on data of another kind than {report.data.description!r} is not known.")
    found.append("Whether the data are fair, complete or free of private facts is not known.")
    return found


def _not_loaded(check: ExportCheck) -> str:
    return f"; {check.missing} was not installed, so that it was not loaded there" if check.missing else ""
