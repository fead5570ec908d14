"""`python -m pellucid.cli` is the same as `pellucid`."""

from pellucid.cli import main

main()
