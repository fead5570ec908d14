"""Where there was no C compiler at install: everything gives the same, and one line says what is slower."""

import subprocess
import sys
from pathlib import Path

import pytest

import pellucid

PACKAGE = Path(pellucid.__file__).parent
TWINS = sorted(path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("_*.c"))
RUN = """
import sys
for name in sys.argv[1].split():
    sys.modules[name] = None  # as if it had not been built
from pellucid.cli import main
main(sys.argv[2:])
"""


def tell(*words, is_compiled):
    blocked = "" if is_compiled else " ".join(".".join(path.parts) for path in TWINS)
    run = subprocess.run(
        [sys.executable, "-c", RUN, blocked, *words], capture_output=True, encoding="utf-8", check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_the_twins_are_found():
    assert {"_node", "_codes", "_decoder", "_attention", "_orthogonalize", "_plain_cells"} <= {
        path.name for path in TWINS
    }


def test_the_version_says_what_is_slower():
    lines = tell("--version", is_compiled=False).splitlines()
    assert lines[0] == f"pellucid {pellucid.__version__}"
    assert [("slower" in line, "no C compiler" in line) for line in lines[1:]] == [(True, True)]


@pytest.mark.parametrize(
    "words",
    [
        ("derive", "x*y + tanh(x)", "x=2", "y=3"),
        ("sample", "names", "--model", "ngram", "--n", "5", "-n", "4"),
    ],
    ids=["derive", "sample"],
)
def test_commands_say_the_same_without(words):
    assert tell(*words, is_compiled=False) == tell(*words, is_compiled=True)
