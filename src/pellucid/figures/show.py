"""One way for every record to show itself: `show` in a terminal, `record_text` as plain text, `record_json` as JSON."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from pellucid.figures.tables import Part, parts_text, show_parts
from pellucid.figures.words.answers import prediction_parts
from pellucid.figures.words.claims import claim_parts, ledger_parts, plain_claim, plain_ledger
from pellucid.figures.words.counting import plain_score, sample_parts, score_parts
from pellucid.figures.words.derivation import derivation_parts, plain_derivation
from pellucid.figures.words.export import export_parts, opened_parts
from pellucid.figures.words.inspection import (
    diagnosis_parts,
    explanation_parts,
    inspection_parts,
    plain_diagnosis,
    versus_parts,
    watch_parts,
)
from pellucid.figures.words.ladder import ladder_parts, plain_ladder, size_ladder_parts
from pellucid.figures.words.learning_rate import rate_parts
from pellucid.figures.words.notes import plain_with_notes
from pellucid.figures.words.splitting import split_parts
from pellucid.figures.words.sweep import sweep_parts
from pellucid.figures.words.tokens import token_parts
from pellucid.figures.words.training import plain_report, report_parts
from pellucid.records import (
    ClaimResult,
    Derivation,
    Diagnosis,
    Export,
    Inspection,
    Ladder,
    LearningRateSearch,
    Ledger,
    OpenedModel,
    Predictions,
    RuleExplanation,
    Samples,
    ScoredText,
    SizeLadder,
    SplitReport,
    SweepReport,
    TokenListing,
    TrainingReport,
    Versus,
    Watched,
)

# What a terminal shows of each kind of record. Those that can show more take it as options of their own.
PARTS: dict[type, Callable[[Any], Iterator[Part]]] = {
    ClaimResult: claim_parts,
    Derivation: derivation_parts,
    Diagnosis: diagnosis_parts,
    Export: export_parts,
    Inspection: inspection_parts,
    Ladder: ladder_parts,
    Predictions: prediction_parts,
    LearningRateSearch: rate_parts,
    Ledger: ledger_parts,
    OpenedModel: opened_parts,
    RuleExplanation: explanation_parts,
    Samples: sample_parts,
    ScoredText: score_parts,
    SizeLadder: size_ladder_parts,
    SplitReport: split_parts,
    SweepReport: sweep_parts,
    TokenListing: token_parts,
    TrainingReport: report_parts,
    Versus: versus_parts,
    Watched: watch_parts,
}

# Those whose JSON is more, or less, than their fields.
PLAIN: dict[type, Callable[[Any], object]] = {
    ClaimResult: plain_claim,
    Derivation: plain_derivation,
    Diagnosis: plain_diagnosis,
    Ladder: plain_ladder,
    Ledger: plain_ledger,
    ScoredText: plain_score,
    TrainingReport: plain_report,
}


def show(record: object) -> None:
    """Print the record on stdout: with colours in a terminal, else as plain lines."""
    show_parts(PARTS[type(record)](record))


def record_text(record: object) -> str:
    """The same words as plain text."""
    return parts_text(PARTS[type(record)](record))


def record_json(record: object) -> str:
    """The record as JSON. Numbers that JSON cannot write are the words nan, inf and -inf."""
    plain = PLAIN[type(record)](record) if type(record) in PLAIN else plain_with_notes(record)
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)
