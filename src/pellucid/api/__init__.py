"""What you can ask for from Python. Each verb calls a room and gives back a record that shows itself."""

from pellucid.api.deriving import derive
from pellucid.api.doctoring import doctor
from pellucid.api.inspecting import inspect
from pellucid.api.training import Run, compare, open_run, rate, train
from pellucid.api.watching import watch

__all__ = ["Run", "compare", "derive", "doctor", "inspect", "open_run", "rate", "train", "watch"]
