"""Byte-pair encoding: tokens learned from the training text, by the `tokenizers` package.

It starts from the 256 bytes, so nothing is ever unknown, and joins the most frequent neighbours until there are
`size`. Train it on the training split alone: a vocabulary that has read the test text has seen the test.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pellucid.data.kinds import TextData
from pellucid.data.vocabularies import BOUNDARY, Texts, require_ids, texts_of, whole_words
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SMALLEST = 257  # every byte, and the boundary
LARGEST = 200_000


class BPE:
    """Tokens are pieces of words.

    >>> vocabulary = BPE.train(["low lower lowest"] * 9, size=262, has_boundary=False)
    >>> vocabulary.decode(vocabulary.encode("lowest"))
    'lowest'
    >>> len(vocabulary.encode("lowest")) < len("lowest")
    True
    """

    kind = "bpe"

    def __init__(self, tokenizer: "Tokenizer", has_boundary: bool = True) -> None:
        self.has_boundary = has_boundary
        self._tokenizer = tokenizer
        shift = int(has_boundary)
        size = tokenizer.get_vocab_size(with_added_tokens=False)
        shown = [tokenizer.decode([i]) for i in range(size)]
        # A piece of a character decodes to U+FFFD; the stored form tells such pieces apart.
        named = [
            tokenizer.id_to_token(i) or "" if "\ufffd" in text or not text else text for i, text in enumerate(shown)
        ]
        self.tokens = [BOUNDARY, *named] if has_boundary else named
        self._shift = shift

    @classmethod
    def train(cls, texts: Texts, size: int, has_boundary: bool = True) -> "BPE":
        """Learn at most `size` tokens, the boundary among them."""
        if not SMALLEST <= size <= LARGEST:
            raise PellucidError(
                f"a vocabulary of {size:,} is outside {SMALLEST} to {LARGEST:,}",
                fix="Every byte needs a token; 512 to 4,096 suit small texts",
            )
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size - int(has_boundary),
            show_progress=False,
            special_tokens=[],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        )
        pieces = whole_words(texts_of(texts), joined=isinstance(texts, TextData))
        tokenizer.train_from_iterator((encodable(piece) for piece in pieces), trainer)
        return cls(tokenizer, has_boundary)

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str, unknown: str = "error") -> list[int]:
        ids: list[int] = self._tokenizer.encode(encodable(text)).ids
        return [i + 1 for i in ids] if self.has_boundary else ids

    def decode(self, ids: Sequence[int]) -> str:
        require_ids(ids, len(self))
        found: str = self._tokenizer.decode([i - self._shift for i in ids if i >= self._shift])
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "has_boundary": self.has_boundary,
            "tokenizer": json.loads(self._tokenizer.to_str()),
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "BPE":
        from tokenizers import Tokenizer

        try:
            return cls(Tokenizer.from_str(json.dumps(stored["tokenizer"])), stored["has_boundary"])
        except Exception as error:  # the package raises plain Exception
            raise PellucidError("the stored BPE vocabulary is damaged", fix="Train it again") from error


def encodable(text: str) -> str:
    """The text, refused where it has no UTF-8 form: half of a surrogate pair has none."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PellucidError(
            f"half a surrogate pair, U+{ord(text[error.start]):04X}, cannot be encoded",
            where=f"at character {error.start + 1}",
            fix="Remove it",
        ) from error
    return text
