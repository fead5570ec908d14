"""The run folder: where it is, who holds it, what it says. No torch, so that any run can be read at once.

runs/<name>/             0700, there as a whole or not at all
  run.json               what the run is: written once, with its own SHA-256 and that of the next ones
  vocabulary.json ...    what else a network needs to read its data
  lock                   held by the one process that may write; its content is only information
  metrics.jsonl ...      the logs, one record with its check on each line; the last line of a killed run may be torn
  checkpoints/step-*/    see training/checkpoints.py
  model.safetensors      the best weights so far, and model.json that vouches for them
  baselines.json         what simple models reach, from the first step on
  finished.json          there when nothing is left to do: the end, and the SHA-256 of every other file

Nothing here is believed unseen: read a record with `open_run`, a file with `Run.read_file`, a log with `read_log`, or
with `follow_log` while it is written.
"""

from pellucid.runs.disk import FORMAT, Damaged
from pellucid.runs.folder import BASELINES, LOGS, is_finished
from pellucid.runs.logs import LogPart, LogPlace, follow_log, read_log
from pellucid.runs.run import (
    BASE,
    Run,
    RunResult,
    find_run,
    holds_run,
    is_run,
    new_run_path,
    open_run,
    read_record,
)
from pellucid.runs.seal import Seal, damage_in, read_ending, read_seal
from pellucid.runs.writer import FollowedRun, RunLog, RunWriter, find_writer, require_room

__all__ = [
    "BASE",
    "BASELINES",
    "FORMAT",
    "LOGS",
    "Damaged",
    "FollowedRun",
    "LogPart",
    "LogPlace",
    "Run",
    "RunLog",
    "RunResult",
    "RunWriter",
    "Seal",
    "damage_in",
    "find_run",
    "find_writer",
    "follow_log",
    "holds_run",
    "is_finished",
    "is_run",
    "new_run_path",
    "open_run",
    "read_ending",
    "read_log",
    "read_record",
    "read_seal",
    "require_room",
]
