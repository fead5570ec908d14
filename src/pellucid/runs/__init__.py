"""The run folder: where it is, who holds it, what it says. No torch, so that any run can be read at once.

runs/<name>/             0700, there as a whole or not at all
  run.json               what the run is: written once, with its own SHA-256
  lock                   held by the one process that may write; its content is only information
  metrics.jsonl ...      the logs, one record on each line; the last line of a killed run may be torn
  checkpoints/step-*/    see training/checkpoints.py
  model.safetensors      the best weights so far, and model.json that vouches for them
  finished.json          there when nothing is left to do
"""

from pellucid.runs.disk import FORMAT, Damaged
from pellucid.runs.run import (
    LOGS,
    Run,
    RunResult,
    find_run,
    holds_run,
    is_finished,
    is_run,
    new_run_path,
    open_run,
    read_ending,
    read_log,
    read_record,
)
from pellucid.runs.writer import RunWriter

__all__ = [
    "FORMAT",
    "LOGS",
    "Damaged",
    "Run",
    "RunResult",
    "RunWriter",
    "find_run",
    "holds_run",
    "is_finished",
    "is_run",
    "new_run_path",
    "open_run",
    "read_ending",
    "read_log",
    "read_record",
]
