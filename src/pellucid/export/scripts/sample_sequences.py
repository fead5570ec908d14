"""Draws new items or texts from the network beside this file: python sample.py --prompt "..." --count 5."""

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer

HERE = Path(__file__).parent
LONGEST_ITEM = 1_000  # tokens of an item that does not end


@torch.inference_mode()
def draw(network, tokens, n_tokens, temperature=1.0, seed=1, stop=None):
    """Go on from these tokens until `stop` comes, or for n_tokens; temperature 0 takes the likeliest each time."""
    generator = torch.Generator().manual_seed(seed)
    tokens = list(tokens)
    for _ in range(n_tokens):
        logits = network(torch.tensor([tokens[-network.longest :]]))[0, -1].double()
        if temperature == 0:
            token = int(logits.argmax())
        else:
            shares = (logits / temperature).softmax(-1)
            token = int(torch.multinomial(shares, 1, generator=generator))
        tokens.append(token)
        if token == stop:
            break
    return tokens


def main():
    import model

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", default="")
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--length", type=int, default=300, help="tokens of a text; items end by themselves")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(HERE / "tokenizer.json"))
    network = model.load(HERE)
    start = tokenizer.encode(asked.prompt).ids or [model.OPENING]
    length = LONGEST_ITEM if model.CLOSING is not None else asked.length
    for number in range(asked.count):
        tokens = draw(network, start, length, asked.temperature, asked.seed + number, model.CLOSING)
        print(tokenizer.decode(tokens))


if __name__ == "__main__":
    main()
