"""Every network of the catalogue, trained for two steps and exported to every format, checked by the other tool.

What a format cannot hold is refused in one line, and that is shown too. `python trust/exports.py [NAME]... [FORMAT]...`
for some networks or formats.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings

from pellucid import PellucidError, train
from pellucid.export import FORMATS, export_run
from pellucid.models.catalogue import NETWORKS

# A set for each kind of data, and what else is asked.
DATA = {"list": ("names", {}), "text": ("manual", {}), "table": ("penguins", {"target": "species"})}
DATA |= {"images": ("digits", {}), "pairs": ("dedupe-sort", {})}
POSITIONS = ("none", "index", "sinusoidal", "learned", "relative", "alibi")


def cases() -> list[tuple[str, str, dict[str, object]]]:
    """Networks by name, data, and options."""
    found: list[tuple[str, str, dict[str, object]]] = []
    for card in NETWORKS:
        source, more = DATA[card.kinds[0]]
        starts = ("scratch", "counts") if card.kinds[0] == "list" else ("",)
        found += [(card.name, source, {**more, **({"start": start} if start else {})}) for start in starts]
    found += [("transformer", "names", {"positions": one, "start": "scratch"}) for one in POSITIONS]
    found += [("transformer", "manual", {"start": "counts", "context": 24, "tokens": "bpe"})]
    found += [
        ("transformer", "manual", {"start": "scratch", "context": 24, "tokens": one}) for one in ("bytes", "words")
    ]
    found += [("logistic", "digits", {}), ("mlp", "transactions", {"target": "items_scanned"})]
    return found


def run_case(name: str, source: str, options: dict[str, object], formats: list[str]) -> int:
    """One training and its exports; how many went wrong."""
    said = " ".join(f"{key}={value}" for key, value in options.items())
    size = {} if name in ("logistic",) else {"size": "tiny"}
    run = train(source, model=name, steps=2, **size, **options)  # type: ignore[arg-type]  # checked there
    wrong = 0
    for to in formats:
        try:
            made = export_run(run.folder, to=to)
            print(
                f"{name:<20} {source} {said:<28} {to:<6} {made.check.largest_difference:.1e}  {made.check.tool}",
                flush=True,
            )
        except PellucidError as error:
            is_refusal = "so nothing was written" not in error.what
            wrong += not is_refusal
            print(
                f"{name:<20} {source} {said:<28} {to:<6} {'refused' if is_refusal else 'WRONG'}: {error.what}",
                flush=True,
            )
        except Exception as error:
            wrong += 1
            print(
                f"{name:<20} {source} {said:<28} {to:<6} WRONG: {type(error).__name__}: {str(error)[-300:]}", flush=True
            )
    return wrong


def main() -> int:
    warnings.simplefilter("ignore")
    formats = [word for word in FORMATS if word in sys.argv[1:]] or list(FORMATS)
    wanted = [word for word in sys.argv[1:] if word not in FORMATS]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        wrong = sum(run_case(*case, formats) for case in cases() if not wanted or case[0] in wanted)
    print(f"{wrong} went wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
