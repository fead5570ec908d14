"""Lessons: what is taught by a picture. One file each: its record, `measure`, `draw`, what it says, and its card."""
