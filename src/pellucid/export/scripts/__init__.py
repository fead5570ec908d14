"""Scripts that go with an export to torch, each a file that runs by itself beside model.py; none imports pellucid."""
