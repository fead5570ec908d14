"""Scores to tokens, and how new the result is. It takes a function from contexts to scores, never a model."""
