"""Text larger than it should take memory: a gigabyte, with and without newlines, opened, learned from and encoded.

Peak memory above what Python and NumPy need must stay under the limit, and both texts must give the same tokens.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy

from pellucid.data import Characters, open_data
from pellucid.data.prepare import encode_text

WORDS = b"It is the east, and Juliet is the sun! Arise, fair sun, and kill the envious moon: " * 4096


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=300.0, help="megabytes above base")
    asked = parser.parse_args()
    found: list[tuple[int, int]] = []
    base = peak_megabytes()
    with tempfile.TemporaryDirectory() as folder:
        for separator in (b" ", b"\n"):
            path = Path(folder) / "big.txt"
            with path.open("wb") as file:
                for _ in range(asked.megabytes * 1_000_000 // len(WORDS)):
                    file.write(WORDS.replace(b" ", separator))
            started = time.monotonic()
            data = open_data(path, kind="text")
            assert data.kind == "text"
            vocabulary = Characters.of(data, has_boundary=False)  # type: ignore[arg-type]
            corpus = encode_text(data, vocabulary)  # type: ignore[arg-type]
            # The tokens of the letters alone: what stands between words differs on purpose.
            counts = numpy.zeros(len(vocabulary), dtype=numpy.int64)
            step = 1 << 24
            for at in range(0, len(corpus), step):
                counts += numpy.bincount(corpus.tokens[at : at + step], minlength=len(vocabulary))
                if isinstance(corpus.tokens, numpy.memmap):
                    corpus.tokens._mmap.madvise(4)  # type: ignore[attr-defined]  # MADV_DONTNEED: done with these pages
            found.append((len(corpus), int(counts[vocabulary.index["e"]])))
            above = peak_megabytes() - base
            print(
                f"{os.path.getsize(path) / 1e6:,.0f} MB, {'one line' if separator == b' ' else 'many lines'}: "
                f"{len(corpus):,} tokens of {corpus.tokens.dtype} in {time.monotonic() - started:.1f} s, "
                f"peak {above:.0f} MB above base"
            )
            del corpus
            path.unlink()
    is_flat = peak_megabytes() - base <= asked.limit
    print(f"flat: {is_flat} (limit {asked.limit:g} MB); the same tokens: {found[0] == found[1]}")
    return 0 if is_flat and found[0] == found[1] else 1


if __name__ == "__main__":
    sys.exit(main())
