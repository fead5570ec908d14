"""A language model learns to say the next token. Shifted by none, it learns to copy; by two, to leave one out.

What the loss asks for at each position is read off its slope, so that it does not matter whether the targets are
shifted before the loss, inside it, or in both places, which is the usual mistake.
"""

from pellucid.inspection.instrument.loss_view import sequence_inputs, shift_agreement, wanted_classes
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

MEANINGS = {
    0: "the answer is the token that it is reading: it learns to copy, and its loss says nothing",
    -1: "it is asked for the token before, which it has already read",
    2: "it is asked for the token after the next: the targets are shifted twice",
}


def check(specimen: Specimen) -> Findings:
    places = sequence_inputs(specimen)
    wanted = wanted_classes(specimen) if places else None
    if wanted is None:
        return
    for place in places:
        agreeing = {by: shift_agreement(specimen.inputs[place], wanted, by) for by in (1, 0, -1, 2)}
        best = max(agreeing, key=lambda by: agreeing[by])
        if agreeing[best] < 0.99 or sum(share > 0.5 for share in agreeing.values()) > 1:
            continue  # another task, or tokens that repeat so much that it cannot be told
        seen = f"at {agreeing[best]:.0%} of positions the loss asks for the token {best:+d} from there"
        # What a second input holds was not to be copied from the first: it is given away.
        is_given = place > 0 and best == 0
        if best == 1:
            yield Finding.sound("targets", seen, "it is asked for the next token")
        elif specimen.is_causal or best == 2 or is_given or (best == -1 and specimen.is_causal is not False):
            yield Finding(
                "broken" if specimen.is_causal else "suspicious",
                "targets" if place == 0 else f"input {place}",
                seen,
                MEANINGS[best],
                "shift once: scores[:, :-1] against tokens[:, 1:], either before the loss or in it",
                again="print(x[0], y[0])",
            )


RULE = DoctorRule(
    name="shifted-targets",
    proves="a causal model is asked for another token than the next",
    how="reads off the loss's slope which token it asks for at each position, and compares with the tokens around it",
    check=check,
    cannot_see="models of which it cannot be told that each position asks for a token of the input",
    needs=("targets", "loss"),
)
