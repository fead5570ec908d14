"""Bugs that people reported of their own code or of others', each written anew as a small program beside its twin."""
