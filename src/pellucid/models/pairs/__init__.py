"""Networks that read a source and write its target: for pairs."""
