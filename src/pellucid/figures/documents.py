"""Records as JSON: the same numbers as on the screen, for machines."""

import json

from pellucid.records import Derivation, as_plain


def derivation_json(derivation: Derivation) -> str:
    """Everything the derivation holds. Numbers that JSON cannot write are the words nan, inf and -inf."""
    document = {
        "expression": derivation.text,
        "inputs": derivation.inputs,
        "outputs": derivation.values,
        "gradients": derivation.jacobian,
        "nodes": derivation.nodes,
        "passes": [
            {"output": back.output, "node": back.place, "gradients": back.gradients, "steps": list(back.steps)}
            for back in derivation.passes
        ],
        "checks": derivation.checks,
        "effects": derivation.effects,
        "notes": derivation.notes,
    }
    return json.dumps(as_plain(document), ensure_ascii=False, allow_nan=False)
