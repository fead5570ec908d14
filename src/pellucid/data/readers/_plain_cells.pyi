PlainColumn = bytes | tuple[bytes, list[str]] | None

def read(
    content: bytes, start: int, separator: str, n_columns: int, longest: int, /
) -> tuple[int, list[PlainColumn]] | None: ...
