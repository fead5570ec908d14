"""The pictures of `pellucid draw`: one file each, ending with its card."""
