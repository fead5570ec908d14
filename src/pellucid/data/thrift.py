"""A reader for Thrift's compact protocol, as much as a Parquet footer needs.

Every length is checked against what is left. A structure becomes a dictionary from field number to value; Parquet nests
them no deeper than DEEPEST.
"""

from pellucid.errors import PellucidError

DEEPEST = 16

Field = object


class Broken(PellucidError):
    """The bytes are no Thrift structure."""

    def __init__(self) -> None:
        super().__init__("the Parquet metadata are damaged", fix="Write the file again")


class Compact:
    """Reads structures from bytes, from a place on."""

    def __init__(self, content: bytes, at: int = 0) -> None:
        self.content = content
        self.at = at

    def structure(self, depth: int = 0) -> dict[int, Field]:
        """One structure: {field: value}, with nested ones as dictionaries and lists."""
        if depth > DEEPEST:
            raise Broken
        found: dict[int, Field] = {}
        field = 0
        while kind := self._byte():
            step = kind >> 4
            field = field + step if step else self._zigzag()
            found[field] = self._value(kind & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Field:
        if kind in (1, 2):  # a truth value stands in the type itself
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            return self._list(depth)
        if kind == 12:
            return self.structure(depth + 1)
        # Maps (11) occur nowhere in a footer.
        raise Broken

    def _list(self, depth: int) -> list[Field]:
        head = self._byte()
        n = head >> 4 if head >> 4 < 15 else self._varint()
        kind = head & 15
        if n > len(self.content) - self.at:
            raise Broken
        if kind in (1, 2):  # in a list each truth value has a byte of its own
            return [self._byte() == 1 for _ in range(n)]
        return [self._value(kind, depth + 1) for _ in range(n)]

    def _byte(self) -> int:
        if self.at >= len(self.content):
            raise Broken
        self.at += 1
        return self.content[self.at - 1]

    def _bytes(self, n: int) -> bytes:
        if n > len(self.content) - self.at:
            raise Broken
        self.at += n
        return self.content[self.at - n : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise Broken

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
