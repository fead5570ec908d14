"""Broken programs as strangers write them, each beside its repaired twin: the first set."""
