"""Answers sources with the network beside this file: python sample.py SOURCE."""

import argparse
import json
from pathlib import Path

import torch

HERE = Path(__file__).parent


@torch.inference_mode()
def answer(network, source):
    """The greedy answer to a source, both as tokens: the likeliest token, then the likeliest after it, to the end."""
    tokens = [0]
    while len(tokens) <= network.longest_target + 1:
        token = int(network(torch.tensor([source]), torch.tensor([tokens]))[0, -1].argmax())
        if token == 0:
            break
        tokens.append(token)
    return tokens[1:]


def main():
    import model
    import vocabulary

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+")
    network = model.load(HERE)
    known = vocabulary.pair_vocabulary_from_json(json.loads((HERE / "vocabulary.json").read_text(encoding="utf-8")))
    for source in parser.parse_args().sources:
        print(known.decode_target(source, answer(network, known.encode(source))))


if __name__ == "__main__":
    main()
