"""Learning to sort: decoders trained side by side are decoders, and what is counted as right is what is written."""

import pytest
import torch

from pellucid.claims.learning_to_sort import encode_sort_rows, stack_decoders, train_decoders
from pellucid.data.sets.dedupe_sort import load
from pellucid.lessons.hand_set_attention import VOCABULARY, HandSetDecoder, encode_tokens

pytestmark = pytest.mark.usefixtures("one_thread")


def random_starts(n: int) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(3)
    shapes = {name: one.shape for name, one in HandSetDecoder(is_hard=False).named_matrices().items()}
    return {name: torch.randn(n, *shape, generator=rng, dtype=torch.float64) for name, shape in shapes.items()}


def decoder_of(matrices: dict[str, torch.Tensor], at: int, attention: str = "softmax") -> HandSetDecoder:
    model = HandSetDecoder(is_hard=attention == "argmax")
    for name, matrix in model.named_matrices().items():
        matrix.data = matrices[name][at].double()
    return model


@pytest.mark.parametrize("attention", ["softmax", "argmax"])
def test_decoders_side_by_side_are_decoders(attention):
    matrices, tokens = random_starts(3), encode_tokens(["D", "A", "A", "START", "A", "D"])[None]
    together = stack_decoders(attention)(matrices, tokens)
    for at in range(3):
        assert torch.allclose(together[at], decoder_of(matrices, at, attention)(tokens), atol=1e-12)


def test_what_is_scored_is_the_answer_and_the_end():
    train, other = encode_sort_rows(1)
    pairs = load(seed=1, n=1000).pairs
    for (_, target), tokens, is_scored in zip(pairs[:800], *train, strict=True):
        assert [VOCABULARY[one] for one in tokens[1:][is_scored]] == [*target, "STOP"]
    assert len(other.tokens) == 200


def test_right_is_what_greedy_decoding_writes():
    """Written token by token; some of three decoders answer something right after 150 steps."""
    matrices, _, exact = train_decoders("softmax", random_starts(3), tuple(random_starts(1)), 150, seed=1)
    pairs = load(seed=1, n=1000).pairs[800:]
    for at in range(3):
        model, n_right = decoder_of(matrices, at), 0
        for source, target in pairs:
            tokens = [VOCABULARY.index(one) for one in [*source, "START"]]
            written: list[str] = []
            while len(written) <= len(target) and written[-1:] != ["STOP"]:
                tokens.append(int(model(torch.tensor(tokens))[-1].argmax()))
                written.append(VOCABULARY[tokens[-1]])
            n_right += written == [*target, "STOP"]
        assert exact[at].item() == pytest.approx(n_right / len(pairs))
    assert exact.max() > 0
