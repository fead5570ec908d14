from pellucid.models.counting.count_model import FloatArray, IntArray

class Index:
    def __init__(self, codes: IntArray) -> None: ...
    def find(self, wanted: IntArray, places: IntArray, /) -> None: ...
    def score(
        self,
        tokens: IntArray,
        values: FloatArray,
        found: FloatArray,
        vocab_size: int,
        order: int,
        has_boundary: bool,
        closing: int,
        /,
    ) -> int: ...
