"""Pages from templates: every text is escaped as it is filled in, so nothing of the data is ever read as markup."""

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pellucid.errors import printable

# No page asks anyone for anything; scripts of its own only where a template says so.
POLICY = Markup("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
POLICY_WITH_SCRIPT = Markup("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:")


def render(template: str, **values: Any) -> Markup:
    """A template of `figures/templates` filled in, as markup that may stand in another."""
    return Markup(_environment().get_template(template).render(**values))


def render_page(template: str, **values: Any) -> str:
    """A template that is a whole page, as text for a file."""
    return str(render(template, **values))


@cache
def asset(name: str) -> Markup:
    """A style sheet or a script of ours, as it is."""
    return Markup(files("pellucid.figures").joinpath(f"assets/{name}").read_text(encoding="utf-8"))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("pellucid.figures"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    made.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
    made.globals |= {"asset": asset, "policy": POLICY, "policy_with_script": POLICY_WITH_SCRIPT}
    return made


def _printable(value: object) -> object:
    """What is no markup of ours, without letters that could move a cursor."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join([printable(line) for line in value.split("\n")])
    return value
