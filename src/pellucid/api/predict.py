"""What the network of a run says of new images, rows or sources of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.api.shown import Shown
from pellucid.decoding.options import require_beam
from pellucid.errors import PellucidError, quoted
from pellucid.runs import open_run
from pellucid.training.inference.prediction import predict_examples, read_examples, require_answers

if TYPE_CHECKING:
    from pellucid.records import Predictions


def predict(
    run: str | Path,
    *files: str | Path,
    text: str = "",
    beam: int = 0,
    encoding: str = "utf-8",
    separator: str = "",
) -> Shown[Predictions]:
    """Predictions for new examples, read as the network of the run reads them.

    files: images or folders of them, tables, or for pairs lists of sources. text: one source of pairs; beam: of pairs,
    the width of a beam search, 0 for the likeliest token each time.
    """
    opened = open_run(run)
    require_answers(opened)
    if beam:
        if opened.kind != "pairs":
            raise PellucidError(
                f"{{beam}} is for pairs, and {quoted(opened.name)} reads {opened.kind}",
                fix="Leave it out",
                options={"beam": None},
            )
        require_beam(beam)
    examples = read_examples(opened, [str(file) for file in files], text=text, encoding=encoding, separator=separator)
    return Shown(predict_examples(opened, examples, beam))
