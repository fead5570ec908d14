"""The run folder: where it is, who holds it, what it says. No torch, so that any run can be read at once.

runs/<name>/             0700, there as a whole or not at all
  run.json               what the run is: written once, sealed by its SHA-256
  lock                   held by the one process that may write; its content is only information
  metrics.jsonl ...      the logs, one record on each line; the last line of a killed run may be torn
  checkpoints/step-*/    see training/checkpoints.py
  model.safetensors      the best weights so far, and model.json that vouches for them
  finished.json          there when nothing is left to do
"""

from pellucid.runs.logs import LOGS, read_log
from pellucid.runs.places import find_run, holds_run, is_run, place_for
from pellucid.runs.sealed import FORMAT
from pellucid.runs.writer import RunWriter, is_finished, read_ending, read_record

__all__ = [
    "FORMAT",
    "LOGS",
    "RunWriter",
    "find_run",
    "holds_run",
    "is_finished",
    "is_run",
    "place_for",
    "read_ending",
    "read_log",
    "read_record",
]
