"""What you can ask for from Python. Each verb calls a room and gives back a record that shows itself."""

from pellucid.verbs.deriving import derive
from pellucid.verbs.doctoring import doctor
from pellucid.verbs.inspecting import inspect
from pellucid.verbs.training import Run, compare, open_run, rate, train
from pellucid.verbs.watching import watch

__all__ = ["Run", "compare", "derive", "doctor", "inspect", "open_run", "rate", "train", "watch"]
