"""How tokens are written beside an axis: each can be seen, and none is too long."""

from pellucid.figures.words.text import labels

LONGEST = 10


def token_label(token: str) -> str:
    """The token with signs for what cannot be seen, its end left out where it is too long.

    >>> token_label(" "), token_label(" the"), token_label("a"), token_label("\\n"), token_label("representation")
    ('␣', '_the', 'a', '↵', 'represent…')
    """
    # The sign of a space needs a font of its own, and a whole word would be set in it.
    token = token.replace(" ", "_") if token.strip() else token
    shown = "".join([labels([character], has_boundary=False)[0] for character in token])
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"
