"""`python -m pellucid` is the same as `pellucid`."""

from pellucid.cli import main

main()
