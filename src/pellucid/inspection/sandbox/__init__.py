"""Code of other people, run in a process of its own."""
