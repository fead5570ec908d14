# int64 of each row; uint16 places in a list of names, and that; None where it is left to others
PlainColumn = bytes | tuple[bytes, list[str]] | None

def read(
    content: bytes, start: int, separator: str, n_columns: int, longest: int, /
) -> tuple[int, list[PlainColumn]] | None: ...
