"""Numbers that remember. `rules.py` is the table of operations; the rest reads it."""
