"""The code that a finding is shown again with, as it is printed: it runs with the names that a reader has.

model, loss, optimizer and step are what the doctor was given; inputs is what the model is called with, x the first of
them, y the targets. Rules write it for one input and for a step; here it is made to fit the patient.
"""

import re

from pellucid.inspection.instrument.specimen import Specimen

_STEP = re.compile(r"(?<![\w.])step\(\)")
_USUAL_STEP = "optimizer.zero_grad(); loss(model(x), y).backward(); optimizer.step()"
_MODULES = ("copy", "math", "time")


def code_to_print(code: str, specimen: Specimen) -> str:
    """The code of a rule as it runs for this patient, with its imports.

    >>> import torch
    >>> from torch import nn
    >>> both = Specimen(nn.Bilinear(2, 2, 1), (torch.ones(1, 2), torch.ones(1, 2)))
    >>> code_to_print("print(copy.deepcopy(model)(x))", both)
    'import copy; print(copy.deepcopy(model)(*inputs))'
    >>> code_to_print("for _ in range(2): step()", both)
    'for _ in range(2): optimizer.zero_grad(); loss(model(*inputs), y).backward(); optimizer.step()'
    """
    if specimen.step is None:
        code = _STEP.sub(_USUAL_STEP, code)
    if len(specimen.inputs) > 1:
        code = code.replace("(x)", "(*inputs)")
    used = [name for name in _MODULES if re.search(rf"\b{name}\.", code) and f"import {name}" not in code]
    if not used:
        return code
    # A compound statement cannot stand behind a semicolon.
    is_simple = not re.match(r"(for|while|with|if|class|def|try)\b", code)
    return f"import {', '.join(used)}" + ("; " if is_simple else "\n") + code
