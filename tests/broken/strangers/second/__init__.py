"""Broken programs, each beside its repaired twin: the second set."""
