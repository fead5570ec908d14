"""The house rules that a machine can read: who imports whom, what loads when, what is documented."""

import ast
import functools
import importlib
import re
import runpy
import subprocess
from pathlib import Path

import pytest

import pellucid
from pellucid.autograd.rules import RULES
from pellucid.cli import COMMANDS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "pellucid"

# Each room and the rooms of ours that it may import; inside a room anything goes but cycles.
MAY_IMPORT: dict[str, set[str]] = {
    "__init__": set(),
    "__main__": {"cli"},
    "errors": set(),
    "options": {"errors"},
    "records": set(),
    "cards": {"errors"},
    "http": {"errors", "records"},
    "runs": {"errors", "options", "records"},
    "autograd": {"errors", "options", "records"},
    "data": {"errors", "options", "records", "cards"},
    "layers": {"errors", "options"},
    "decoding": {"errors", "options", "records"},
    "inspection": {"errors", "options", "records", "cards"},
    "models": {"errors", "options", "records", "cards", "layers", "data"},
    "training": {
        *(
            "__init__",
            "errors",
            "options",
            "records",
            "cards",
            "runs",
            "data",
            "layers",
            "decoding",
            "inspection",
            "models",
        ),
    },
    "figures": {"errors", "options", "records", "cards", "data"},
    "claims": {
        *("errors", "options", "records", "cards", "runs", "autograd", "data", "layers", "decoding", "inspection"),
        *("models", "training", "figures", "lessons", "__init__"),
    },
    "lessons": {
        "runs",
        *("errors", "options", "records", "cards", "autograd", "data", "layers", "decoding", "inspection", "models"),
        *("training", "figures"),
    },
    "api": {
        "__init__",
        "lessons",
        "claims",
        "errors",
        "options",
        "records",
        "cards",
        "runs",
        "autograd",
        "data",
        "decoding",
        "inspection",
        "models",
        "training",
        "figures",
    },
    "export": {
        *("__init__", "errors", "options", "records", "runs", "data", "layers", "models", "training", "figures", "api"),
    },
    "cli": {
        "export",
        *(
            "__init__",
            "errors",
            "options",
            "records",
            "cards",
            "runs",
            "autograd",
            "data",
            "decoding",
            "models",
            "training",
        ),
        *("figures", "inspection", "api", "http", "lab", "serve"),
    },
    "lab": {"errors", "records", "http", "api"},
    "serve": {"errors", "options", "http", "api"},
}


@functools.cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def imports_and_calls(path: Path) -> tuple[list[ast.AST], list[ast.AST]]:
    """Of a file, read once for all tests: its top level, and all that is imported and called wherever in it."""
    tree = ast.parse(path.read_text())
    return list(tree.body), [
        node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
    ]


def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    """The dotted names of our modules that a file imports, wherever in the file it does so."""
    names: set[str] = set()
    for node in imports_and_calls(path)[0 if top_level_only else 1]:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno} imports relatively"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in modules() else node.module)
    return {name for name in names if name.split(".")[0] == "pellucid"}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def test_every_room_is_known():
    assert {room(module) for module in modules()} <= set(MAY_IMPORT)


@pytest.mark.parametrize("module", modules())
def test_imports_point_one_way(module):
    for name in imports(modules()[module]):
        assert room(name) in MAY_IMPORT[room(module)] | {room(module)}, f"{module} may not import {name}"


def test_there_is_no_cycle_of_imports():
    waiting = {module: imports(path, top_level_only=True) - {module} for module, path in modules().items()}
    while free := [module for module, needs in waiting.items() if not needs & set(waiting)]:
        for module in free:
            del waiting[module]
    assert waiting == {}


def test_neither_torch_nor_numpy_is_loaded(run_together):
    light = [["--help"], ["--version"], [], ["derive", "--help"], ["derive", "2x"], ["deriv"]]
    *said, derived = run_together([*light, ["derive", "x*x", "x=3"]])
    assert [one.loaded for one in said] == [set()] * len(light)
    assert derived.loaded == {"rich"}
    assert derived.code == 0


def test_the_front_door_is_sorted_and_leads_somewhere():
    assert pellucid.__all__ == sorted(pellucid.__all__)
    assert dir(pellucid) == pellucid.__all__
    for name in pellucid.__all__:
        assert getattr(pellucid, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'deriv'"):
        pellucid.deriv  # noqa: B018


def test_every_command_is_documented():
    page = (ROOT / "docs" / "commands.md").read_text()
    readme = (ROOT / "README.md").read_text()
    for name in COMMANDS:
        assert f"## pellucid {name}" in page
        assert f"pellucid {name}" in readme
        assert importlib.import_module(f"pellucid.cli.{name}").command.name == name


def test_every_rule_is_documented():
    page = (ROOT / "docs" / "rules.md").read_text()
    for name in RULES:
        assert f"| {name} |" in page


def test_what_is_generated_is_up_to_date():
    build = runpy.run_path(str(ROOT / "docs" / "build.py"))
    for path, text in build["generated"]().items():
        assert path.read_text() == text, f"{path.name} is out of date: run python docs/build.py"


def test_the_readmes_tree_is_true():
    """Every line of the tree exists, and every file or folder that belongs on it is there."""
    readme = (ROOT / "README.md").read_text()
    block = re.search(r"```text\n(src/pellucid/.*?)```", readme, re.DOTALL)
    assert block
    listed: set[str] = set()
    folder = ""
    for line in block[1].splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            folder = name if name.endswith("/") and name.count("/") > 1 else ""
            listed.add(name)
        else:
            listed.add(folder + name)
    for name in listed:
        assert (ROOT / name).exists(), name
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, encoding="utf-8", cwd=ROOT, check=False)
    if tracked.returncode:
        pytest.skip("not a git checkout, so what belongs to the project cannot be told")
    files = tracked.stdout.splitlines()
    folders = {f"{file.split('/')[0]}/" for file in files if "/" in file and not file.startswith((".", "src"))}
    rooms = {
        f"src/pellucid/{parts[2]}{'/' if len(parts) > 3 else ''}"
        for parts in (file.split("/") for file in files)
        if parts[:2] == ["src", "pellucid"] and parts[2] not in ("py.typed",)
    }
    assert folders | rooms <= listed


FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "system", "popen"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "yaml", "tarfile", "subprocess", "socket", "urllib", "http"}
# Someone's own code is run in a child, and sockets are listened at, only from here.
MAY_IMPORT_BESIDES = {
    "pellucid.inspection.sandbox": {"subprocess"},
    "pellucid.api.processes": {"subprocess"},
    "pellucid.api.exports": {"subprocess"},
    "pellucid.http.server": {"socket"},
    "pellucid.http.door": {"socket"},
    "pellucid.lab.app": {"socket"},
    # Which way leads to another machine of a training is asked of the kernel; nothing is sent.
    "pellucid.training.launch": {"socket"},
    # What processes of one training tell each other on one machine, in a file that only their user can read.
    "pellucid.training.shared_data": {"pickle"},
    # What a fork of this very process tells it, through a pipe that no other process has.
    "pellucid.training.forked_work": {"pickle"},
}


@pytest.mark.parametrize("module", modules())
def test_nothing_runs_code_from_data_or_opens_a_connection(module):
    forbidden = FORBIDDEN_MODULES - MAY_IMPORT_BESIDES.get(module, set())
    for node in imports_and_calls(modules()[module])[1]:
        if isinstance(node, ast.Call):
            function = node.func
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            # torch.compile compiles a network of ours, and re.compile a pattern.
            is_re_compile = isinstance(function, ast.Attribute) and getattr(function.value, "id", "") in ("re", "torch")
            # A module's own eval() takes nothing, so it can run nothing.
            is_eval_mode = isinstance(function, ast.Attribute) and name == "eval" and not node.args
            assert is_re_compile or is_eval_mode or name not in FORBIDDEN_CALLS, f"{module}:{node.lineno} calls {name}"
        elif isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & forbidden
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in forbidden


def test_no_machine_is_named():
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, encoding="utf-8", cwd=ROOT, check=False)
    if tracked.returncode:
        pytest.skip("not a git checkout, so what belongs to the project cannot be told")
    # Put together here, so that this file does not find itself.
    home = re.compile("(^|[^A-Za-z0-9_.])/(" + "|".join(["work", "root", "home", "Users"]) + ")/[A-Za-z0-9_]")
    for name in tracked.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and path.suffix in {".py", ".md", ".toml", ".txt", ".js", ".css", ""}:
            assert not home.search(path.read_text()), name


def test_every_skip_has_its_row():
    listed = (ROOT / "tests" / "SKIPPED.md").read_text()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if re.search(r"pytest\.(mark\.)?(skip|skipif|importorskip)\b", path.read_text()):
            assert path.relative_to(ROOT / "tests").as_posix() in listed, path.name


def test_the_page_on_architecture_names_what_exists():
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`([\w/]+\.py)(?::(\w+))?`", page)
    assert len(named) > 30
    for path, name in named:
        if path == "model.py":  # the reader's own
            continue
        assert (PACKAGE / path).is_file(), path
        tree = ast.parse((PACKAGE / path).read_text())
        here = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert not name or name in here, f"{path} has no {name}"


def test_the_page_on_working_here_names_what_exists():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    paths = {path for path in re.findall(r"`([\w/]+(?:\.py|\.md|/))`", page) if "/" in path}
    assert len(paths) > 15
    roots = (ROOT, PACKAGE, PACKAGE / "models")
    made_up = {"models/sequences/bag.py"}  # the network that the page adds
    assert {path for path in paths if not any((root / path).exists() for root in roots)} == made_up
