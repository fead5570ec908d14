"""The vocabulary of a model that was opened from a Hugging Face folder: its own tokenizer.json decides everything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.data.vocabularies import Vocabulary, damaged_vocabulary, require_ids, require_utf8

if TYPE_CHECKING:
    from tokenizers import Tokenizer

KIND = "hugging-face"


class HFVocabulary(Vocabulary):
    """Text to the numbers that a stranger's tokenizer gives it. It reads running text.

    opening: the token that stands before a text; None where there is none. endings: those that end one.
    size: tokens of the model, of which the tokenizer may know fewer.
    """

    kind = KIND

    def __init__(self, stored: Any, size: int, opening: int | None = None, endings: Sequence[int] = ()) -> None:
        from tokenizers import Tokenizer

        try:
            self._tokenizer: Tokenizer = Tokenizer.from_str(json.dumps(stored))
        except Exception as error:  # the package raises plain Exception
            raise damaged_vocabulary("tokenizer.json cannot be read") from error
        self._stored, self.opening, self.endings = stored, opening, tuple(endings)
        self._size = size
        if self._tokenizer.get_vocab_size() > size and self._highest >= size:
            raise damaged_vocabulary(f"its tokenizer has {self._highest + 1:,} tokens, and its network {size:,}")
        super().__init__(self._shown(), has_boundary=False)

    @property
    def _highest(self) -> int:
        return max(self._tokenizer.get_vocab().values(), default=-1)

    def _shown(self) -> list[str]:
        """How each token is shown; what only stands in for a piece of a character, by its stored name."""
        texts = self._tokenizer.decode_batch([[i] for i in range(self._size)], skip_special_tokens=False)
        return [
            text if text and "\ufffd" not in text else self._tokenizer.id_to_token(i) or f"<unused {i}>"
            for i, text in enumerate(texts)
        ]

    def encode(self, text: str, unknown: str = "error") -> list[int]:
        ids: list[int] = self._tokenizer.encode(require_utf8(text), add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        require_ids(ids, len(self))
        found: str = self._tokenizer.decode([i for i in ids if i not in self.endings], skip_special_tokens=False)
        return found

    def to_json(self) -> dict[str, Any]:
        own = {"size": self._size, "opening": self.opening, "endings": list(self.endings), "tokenizer": self._stored}
        return {**super().to_json(), **own}


def hf_vocabulary_from_json(stored: dict[str, Any]) -> HFVocabulary:
    """What `to_json` described, checked: it may come from someone else."""
    size, opening, endings = stored.get("size"), stored.get("opening"), stored.get("endings")
    if type(size) is not int or not 1 < size < 1 << 24:
        raise damaged_vocabulary("its size is no number of tokens")
    is_list = isinstance(endings, list)
    ids = [*(endings if is_list else [None]), *([] if opening is None else [opening])]  # type: ignore[misc]  # a list
    if not all(type(one) is int and 0 <= one < size for one in ids):
        raise damaged_vocabulary("what begins or ends a text is no token of it")
    return HFVocabulary(stored.get("tokenizer"), size, opening, tuple(endings or ()))
