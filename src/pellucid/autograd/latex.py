"""A derivation as LaTeX, typeset from the same rows that computed it."""

import re
from collections.abc import Iterator, Sequence

from pellucid.autograd.rules import RULES
from pellucid.records import BackwardPass, Derivation, GraphNode

_GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "mu"),
    *("nu", "xi", "rho", "sigma", "phi", "chi", "psi", "omega"),
)


def derivation_latex(derivation: Derivation) -> str:
    """The forward pass and each backward pass as align* environments (they need the package amsmath)."""
    blocks = [_align("% Forward", _forward_lines(derivation.nodes))]
    for back in derivation.passes:
        blocks.append(_align(f"% Backward from {back.output}", _backward_lines(derivation.nodes, back)))
    return "\n".join(block for block in blocks if block)


def _align(comment: str, lines: Iterator[str]) -> str:
    body = " \\\\\n".join(f"  {line}" for line in lines)
    return f"{comment}\n\\begin{{align*}}\n{body}\n\\end{{align*}}" if body else ""


def _forward_lines(nodes: Sequence[GraphNode]) -> Iterator[str]:
    for node in nodes:
        if node.form != "given":
            yield f"{symbol(node)} &= {_operation(nodes, node)} = {number(node.value)}"


def _operation(nodes: Sequence[GraphNode], node: GraphNode) -> str:
    return RULES[node.rule].latex.format(**_letters(nodes, node, 0))


def _backward_lines(nodes: Sequence[GraphNode], back: BackwardPass) -> Iterator[str]:
    output = symbol(nodes[back.place])
    for step in back.steps:
        node, parent = nodes[step.node], nodes[step.parent]
        slope = RULES[node.rule].latex_slope(step.position).format(**_letters(nodes, node, step.position))
        sign = "&\\mathrel{+}=" if step.use > 1 else "&="
        so_far = f"\\quad (\\text{{sum }} {number(step.running_sum)})" if step.uses > 1 else ""
        upstream = f"\\frac{{\\partial {output}}}{{\\partial {symbol(node)}}}"
        yield (
            f"\\frac{{\\partial {output}}}{{\\partial {symbol(parent)}}} {sign} {upstream} \\cdot {_factor(slope)}"
            f" = {number(step.upstream)} \\cdot {_factor(number(step.slope))} = {number(step.contribution)}{so_far}"
        )


def _letters(nodes: Sequence[GraphNode], node: GraphNode, position: int) -> dict[str, str]:
    """What the row's letters stand for at this node; {a} is the input looked at where there may be any number."""
    inputs = [symbol(nodes[parent]) for parent in node.parents]
    everything = {"all": ", ".join(inputs), "out": symbol(node)}
    if RULES[node.rule].arity is None:
        return {**everything, "a": inputs[position]}
    return {**everything, **dict(zip("abc", inputs, strict=False))}


def _factor(formula: str) -> str:
    """The formula in brackets if it could be misread behind a multiplication sign."""
    return f"\\left({formula}\\right)" if re.search(r"^-|[+-] ", formula) else formula


def symbol(node: GraphNode) -> str:
    """The node's name as mathematicians write it: w0 with an index, alpha as the letter, long names upright.

    >>> from pellucid.records import GraphNode
    >>> named = lambda name: GraphNode(0, name, "input", "", "given", (), 1.0, (), (), True, 0, 0)
    >>> symbol(named("w0")), symbol(named("alpha_2")), symbol(named("learning_rate")), symbol(named("p[0]"))
    ('w_{0}', '\\\\alpha_{2}', '\\\\mathrm{learning\\\\_rate}', 'p_{0}')
    """
    if node.rule == "constant":
        return {"pi": "\\pi", "tau": "\\tau", "e": "e"}.get(node.name) or number(node.value)
    found = re.fullmatch(r"([A-Za-z]+)_?([0-9]*)(?:\[([0-9]+)\])?", node.name)
    if not found:
        return _upright(node.name)
    letters, digits, element = found.groups()
    index = ", ".join([part for part in (digits, element) if part])
    base = f"\\{letters}" if letters in _GREEK else letters if len(letters) == 1 else _upright(letters)
    return f"{base}_{{{index}}}" if index else base


def _upright(name: str) -> str:
    escaped = name.replace("_", "\\_")
    return f"\\mathrm{{{escaped}}}"


def number(x: float) -> str:
    """
    >>> number(-1.5e-07), number(float("inf"))
    ('-1.5 \\\\cdot 10^{-7}', '\\\\infty')
    """
    text = f"{x:.6g}" if x else "0"
    if "inf" in text:
        return text.replace("inf", "\\infty")
    if text == "nan":
        return "\\text{nan}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa} \\cdot 10^{{{int(exponent)}}}" if exponent else mantissa
