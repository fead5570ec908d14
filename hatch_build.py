"""Compiles the C twins of the package where there is a C compiler; without one everything works, and some is slower."""

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = sorted(Path("src/pellucid").rglob("_*.c"))


def compile_command(source: Path, target: Path) -> list[str]:
    """As this Python's own extensions are built, or by the compiler that CC names, without its own optimisations.

    A product and a sum are never fused into one rounding, or the numbers would not be those of the twin in Python.
    """
    link = shlex.split(sysconfig.get_config_var("LDSHARED") or "cc -shared")
    link[:1] = shlex.split(os.environ.get("CC", "")) or link[:1]
    position_independent = shlex.split(sysconfig.get_config_var("CCSHARED") or "-fPIC")
    options = ["-O2", "-std=c11", "-ffp-contract=off", "-fno-strict-aliasing", "-DNDEBUG"]
    includes = [f"-I{sysconfig.get_path(name)}" for name in ("include", "platinclude")]
    return [*link, *position_independent, *options, *includes, str(source), "-o", str(target), "-lm"]


class CompileTwins(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        for source in SOURCES:
            path = Path(self.root) / source
            target = path.with_suffix(sysconfig.get_config_var("EXT_SUFFIX") or ".so")
            try:
                subprocess.run(compile_command(path, target), check=True, capture_output=True, timeout=300)
            except (OSError, subprocess.SubprocessError) as error:
                why = getattr(error, "stderr", b"").decode(errors="replace").strip().splitlines()[-1:] or [str(error)]
                self.app.display_warning(f"{source} was not compiled and its slower twin in Python is used: {why[0]}")
                continue
            build_data["artifacts"].append(target.relative_to(self.root).as_posix())
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
