"""The training loop, written out, and everything that listens to it.

Nothing is loaded until one of the files is imported.
"""
