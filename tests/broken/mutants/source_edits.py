"""Small edits of what a program says: its functions are read, changed in one place, and put in place of the old ones.

Each edit takes one node of the syntax tree and gives what may stand in its place. It is applied to the methods of the
model's own classes (also of pellucid's, of torch's transformers and of Hugging Face's), to the loss and to the step.
"""

import __future__

import ast
import copy
import inspect
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import CodeType, FunctionType
from typing import Any

from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen

NodeEdit = Callable[[Any], Iterator[ast.AST]]
TORCHS_OWN = ("torch.nn.modules.transformer",)  # of torch's modules those that are written in Python at any length
AXIS_CALLS = {
    *("softmax", "log_softmax", "mean", "sum", "amax", "max", "min", "cat", "stack", "chunk", "split", "cumsum"),
    *("unsqueeze", "squeeze", "argmax", "logsumexp", "norm", "std", "var", "flip", "roll"),
}


@dataclass(frozen=True)
class Site:
    """One place in one function where an edit can be made."""

    function: str  # "Block.attend", "loss" or "step"
    node: int  # in the order of ast.walk
    choice: int  # of what may stand there
    before: str
    after: str

    @property
    def words(self) -> str:
        return f"{self.function}: {self.before} → {self.after}"


def swap_operator(node: Any) -> Iterator[ast.AST]:
    swapped = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.Pow: ast.Mult}
    if isinstance(node, ast.BinOp) and type(node.op) in swapped:
        yield ast.BinOp(node.left, swapped[type(node.op)](), node.right)


def turn_sign(node: Any) -> Iterator[ast.AST]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield node.operand
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.MatMult):
        yield ast.UnaryOp(ast.USub(), node)


def move_axis(node: Any) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Call):
        return
    for number, keyword in enumerate(node.keywords):
        axis = _integer(keyword.value)
        if keyword.arg in ("dim", "axis") and axis is not None:
            moved = copy.deepcopy(node)
            moved.keywords[number].value = ast.Constant(axis - 1 if axis else 1)
            yield moved
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name in AXIS_CALLS and node.args and (axis := _integer(node.args[-1])) is not None:
        moved = copy.deepcopy(node)
        moved.args[-1] = ast.Constant(axis - 1 if axis else 1)
        yield moved


def turn_comparison(node: Any) -> Iterator[ast.AST]:
    other = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
    back = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for table in (other, back):
            if type(node.ops[0]) in table:
                yield ast.Compare(node.left, [table[type(node.ops[0])]()], node.comparators)


def move_index(node: Any) -> Iterator[ast.AST]:
    """x[:, -1] → x[:, -2], x[:, :n] → x[:, 1:n + 1], x[:, 1:] → x[:, :-1]."""
    if not isinstance(node, ast.Subscript):
        return
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for number, part in enumerate(parts):
        moved = copy.deepcopy(node)
        places = moved.slice.elts if isinstance(moved.slice, ast.Tuple) else None
        index = _integer(part)
        if index is not None:
            new: ast.expr = ast.Constant(index - 1 if index else 1)
        elif isinstance(part, ast.Slice) and part.lower is None and part.upper is not None:
            one = ast.Constant(1)
            new = ast.Slice(one, ast.BinOp(part.upper, ast.Add(), one) if _integer(part.upper) is None else None)
        elif isinstance(part, ast.Slice) and part.lower is not None and part.upper is None:
            new = ast.Slice(None, ast.UnaryOp(ast.USub(), part.lower))
        else:
            continue
        if places is None:
            moved.slice = new
        else:
            places[number] = new
        yield moved


def add_detach(node: Any) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call) and not _is_shape_call(node):
        yield ast.Call(ast.Attribute(node, "detach", ast.Load()), [], [])


def change_constant(node: Any) -> Iterator[ast.AST]:
    if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value:
        yield ast.Constant(node.value * 30)
        yield ast.Constant(node.value / 30)


def swap_arguments(node: Any) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call) and len(node.args) >= 2 and not any(isinstance(a, ast.Starred) for a in node.args):
        for number in range(len(node.args) - 1):
            swapped = copy.deepcopy(node)
            swapped.args[number], swapped.args[number + 1] = swapped.args[number + 1], swapped.args[number]
            yield swapped


def leave_out_call(node: Any) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Call):
        return
    is_method = isinstance(node.func, ast.Attribute) and not _is_module_name(node.func.value)
    if is_method and not (isinstance(node.func.value, ast.Name) and node.func.value.id == "self"):
        yield node.func.value  # x.transpose(1, 2) → x
    elif len(node.args) >= 1 and not isinstance(node.args[0], ast.Starred | ast.GeneratorExp | ast.ListComp):
        yield node.args[0]  # torch.relu(x) → x, self.norm(x) → x


def leave_out_statement(node: Any) -> Iterator[ast.AST]:
    """A call for its effect, as optimizer.zero_grad(), or x = something(x)."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()
    if isinstance(node, ast.AugAssign):
        yield ast.Pass()
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        if any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node.value)):
            yield ast.Pass()


def leave_out_term(node: Any) -> Iterator[ast.AST]:
    """x + f(x) → f(x) or x."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        yield node.left
        yield node.right


def move_transpose(node: Any) -> Iterator[ast.AST]:
    """The axes of another pair, or a reshape where a transposition belongs."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    if node.func.attr in ("transpose", "permute", "swapaxes") and len(node.args) >= 2:
        axes = [_integer(one) for one in node.args]
        if len(axes) == 2 and all(axis is not None for axis in axes):
            for other in ((0, 1), (0, 2), (1, 2), (-1, -2)):
                if sorted(other) != sorted(axes):
                    yield ast.Call(node.func, [ast.Constant(axis) for axis in other], [])
            kept = node.func.value  # x.transpose(1, 2) → x.reshape(x.transpose(1, 2).shape)
            yield ast.Call(
                ast.Attribute(kept, "reshape", ast.Load()),
                [ast.Attribute(copy.deepcopy(node), "shape", ast.Load())],
                [],
            )


def flip_flag(node: Any) -> Iterator[ast.AST]:
    """is_causal=True → False, and a mask inverted."""
    if not isinstance(node, ast.Call):
        return
    for number, keyword in enumerate(node.keywords):
        if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool):
            flipped = copy.deepcopy(node)
            flipped.keywords[number].value = ast.Constant(not keyword.value.value)
            yield flipped
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("masked_fill", "where") and node.args:
        flipped = copy.deepcopy(node)
        flipped.args[0] = ast.UnaryOp(ast.Invert(), node.args[0])
        yield flipped
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("tril", "triu"):
        flipped = copy.deepcopy(node)
        flipped.func.attr = "triu" if node.func.attr == "tril" else "tril"
        yield flipped


def _integer(node: Any) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if type(node.operand.value) is int else None
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _is_module_name(node: Any) -> bool:
    return isinstance(node, ast.Name) and node.id in ("torch", "functional", "F", "nn", "math", "np")


def _is_shape_call(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr in ("size", "dim", "backward", "step", "zero_grad")


SOURCE_EDITS: dict[str, NodeEdit] = {
    "operator": swap_operator,
    "sign": turn_sign,
    "axis": move_axis,
    "comparison": turn_comparison,
    "index": move_index,
    "detach": add_detach,
    "constant": change_constant,
    "arguments swapped": swap_arguments,
    "call left out": leave_out_call,
    "statement left out": leave_out_statement,
    "term left out": leave_out_term,
    "transposed": move_transpose,
    "flag or mask inverted": flip_flag,
}


def list_sites(specimen: Specimen, edit: NodeEdit) -> list[Site]:
    """All places where an edit can be made in what the specimen runs."""
    found = []
    functions = own_functions(specimen)
    called = called_codes(specimen)
    for name, function in functions.items():
        tree = parse_function(function) if function.__code__ in called else None
        if tree is None:
            continue
        body = [child for one in tree.body[0].body for child in ast.walk(one)]  # type: ignore[attr-defined]
        inside = {id(one) for one in body}
        for number, node in enumerate(ast.walk(tree)):
            if id(node) in inside:
                for choice, new in enumerate(edit(copy.deepcopy(node))):
                    new = ast.fix_missing_locations(new)
                    found.append(Site(name, number, choice, _text(node), _text(new)))
    return found


def called_codes(specimen: Specimen) -> set[CodeType]:
    """What runs while the specimen is run once, forward and with its loss or its step."""
    called = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            called.add(frame.f_code)

    with warnings.catch_warnings(), fixed_rng(0):
        warnings.simplefilter("ignore")
        sys.setprofile(note)
        try:
            outputs = specimen.outputs()
            if specimen.has_loss:
                specimen.loss_of(outputs)
            if specimen.step is not None:
                specimen.step()
        finally:
            sys.setprofile(None)
    return called


def apply_site(specimen: Specimen, edit: NodeEdit, site: Site) -> Specimen:
    """The specimen, fresh from its program, with the edit made in it."""
    function = own_functions(specimen)[site.function]
    tree = parse_function(function)
    assert tree is not None
    # Where lines were put in or taken out since, it stands a little elsewhere.
    same = [(abs(number - site.node), number) for number, one in enumerate(ast.walk(tree)) if _text(one) == site.before]
    assert same, f"{site.function} has changed since its mutants were verified"
    node = list(ast.walk(tree))[min(same)[1]]
    new = list(edit(copy.deepcopy(node)))[site.choice]
    edited = rebuild_function(function, ast.fix_missing_locations(_Replace(node, new).visit(tree)))
    if site.function == "loss":
        return replace(specimen, loss=edited)
    if site.function == "step":
        return replace(specimen, step=edited)
    class_name, _, method = site.function.rpartition(".")
    for module in specimen.model.modules():
        if type(module).__qualname__ == class_name:
            module.__class__ = type(class_name, (type(module),), {method: edited})
    return specimen


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().generic_visit(node)


def own_functions(specimen: Specimen) -> dict[str, FunctionType]:
    """The functions in Python that the model, its loss and its step are written with, by name."""
    found: dict[str, FunctionType] = {}
    for kind in dict.fromkeys(type(module) for module in specimen.model.modules()):
        if kind.__module__.startswith("torch.") and kind.__module__ not in TORCHS_OWN:
            continue
        for base in reversed(kind.__mro__):
            if base is nn.Module or (base.__module__.startswith("torch.") and base.__module__ not in TORCHS_OWN):
                continue
            if base.__name__ in ("PreTrainedModel", "GenerationMixin") or "transformers.utils" in base.__module__:
                continue
            for name, value in vars(base).items():
                if isinstance(value, FunctionType) and not name.startswith("__") and name not in ("__init__",):
                    found[f"{kind.__qualname__}.{name}"] = value
    for name in ("loss", "step"):
        if isinstance(function := getattr(specimen, name), FunctionType) and function.__name__ != "<lambda>":
            found[name] = function
    return found


def parse_function(function: FunctionType) -> ast.Module | None:
    """Its syntax tree; None where there is no source, or where it is wrapped by something."""
    if hasattr(function, "__wrapped__"):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    if not isinstance(tree.body[0], ast.FunctionDef) or tree.body[0].decorator_list:
        return None
    # The same whatever stands at the head: annotations and defaults are those of the function itself.
    tree.body[0].returns = None
    return tree


def rebuild_function(function: FunctionType, tree: ast.Module) -> FunctionType:
    """A function of an edited tree, with the globals, the defaults and the closed-over variables of the old one."""
    free = function.__code__.co_freevars
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    for argument in [*definition.args.args, *definition.args.kwonlyargs, *definition.args.posonlyargs]:
        argument.annotation = None
    factory = ast.parse(f"def factory({', '.join(free)}):\n    pass")
    factory.body[0].body = [definition]  # type: ignore[attr-defined]
    flags = __future__.annotations.compiler_flag
    code = compile(ast.fix_missing_locations(factory), "<mutant>", "exec", flags=flags)
    inner = _inner_code(_inner_code(code, "factory"), function.__name__)
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    made = FunctionType(
        inner,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in inner.co_freevars),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__module__ = function.__module__
    return made


def _inner_code(code: CodeType, name: str) -> CodeType:
    return next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name)


def _text(node: ast.AST) -> str:
    words = " ".join(ast.unparse(node).split())
    return words if len(words) <= 100 else words[:99] + "…"
