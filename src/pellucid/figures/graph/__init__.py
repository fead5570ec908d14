"""The graph of a derivation as a picture: which boxes are drawn, where they stand, and how they look."""
