"""Tells what is on images with the network beside this file: python sample.py seven.png."""

import argparse
import json
from pathlib import Path

import numpy
import torch
from PIL import Image, ImageOps

HERE = Path(__file__).parent
SPARE = 4  # times the size, that a JPEG is not reduced below while it is decoded


def decode_image(file, mode, size):
    """An image file as numbers from 0 to 255, in the size and mode that the network reads."""
    import pictures

    with Image.open(file) as opened:
        pictures.reduce_while_decoding(opened, (SPARE * max(size), SPARE * max(size)))
        opened.load()
        picture = pictures.over_white(pictures.in_eight_bits(ImageOps.exif_transpose(opened)))
    picture = picture.convert("L") if mode == "gray" else picture
    return numpy.asarray(picture if picture.size == size else pictures.fit_size(picture, size))


def read_pixels(pixels, preparation):
    """(image, height, width[, 3]), 0 to 255 -> (image, channels, height, width), as the network reads them."""
    channels = numpy.moveaxis(pixels, -1, 1) if pixels.ndim == 4 else pixels[:, None]
    mean, deviation = (
        numpy.array(preparation[name], dtype=numpy.float32).reshape(-1, 1, 1) for name in ("mean", "deviation")
    )
    return torch.from_numpy((channels.astype(numpy.float32) - mean) / deviation)


@torch.inference_mode()
def predict(network, pixels, preparation):
    """The likeliest class of each image."""
    numbers = read_pixels(pixels, preparation)
    scores = network(numbers, torch.zeros(len(numbers), 0, dtype=torch.long))
    return [preparation["classes"][place] for place in scores.argmax(1).tolist()]


def main():
    import model

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    files = parser.parse_args().files
    preparation = json.loads((HERE / "preparation.json").read_text(encoding="utf-8"))
    size = tuple(preparation["size"])
    pixels = numpy.stack([decode_image(file, preparation["mode"], size) for file in files])
    for file, answer in zip(files, predict(model.load(HERE), pixels, preparation), strict=True):
        print(answer, file, sep="\t")


if __name__ == "__main__":
    main()
