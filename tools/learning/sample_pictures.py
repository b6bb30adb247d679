#!/usr/bin/env python3
"""Pictures that a GAN drew (`sample: {images: ...}`) beside real ones: how far the two sets are from each other.

Usage: sample_pictures.py SAMPLE.png REAL-images-idx3-ubyte.gz

Grey pictures, each as its pixels from 0 to 1. With Python's own library alone: scripts/demo has no other.
"""
import gzip
import itertools
import math
import pathlib
import struct
import sys
import zlib

BORDER = 2  # black pixels between the pictures of a sample
NUM_REAL = 500


def _paeth(left, above, corner):
    """Returns the Paeth predictor of the PNG specification's section 9.4."""
    return min((left, above, corner), key=lambda value: abs(left + above - corner - value))


def _unfiltered(kind, line, above):
    """Reverses the PNG filter `kind` of a line with one byte per pixel. `above` is the unfiltered line above."""
    row = bytearray(line)
    for x, byte in enumerate(line):
        left, corner = (row[x - 1], above[x - 1]) if x else (0, 0)
        prediction = (0, left, above[x], (left + above[x]) // 2, _paeth(left, above[x], corner))[kind]
        row[x] = (byte + prediction) % 256
    return row


def read_png(path):
    """Returns the lines of a grey 8-bit PNG without interlacing; raises ValueError for any other file."""
    content = pathlib.Path(path).read_bytes()
    width, height, *form = struct.unpack(">2I5B", content[16:29])
    if content[:8] != b"\x89PNG\r\n\x1a\n" or form != [8, 0, 0, 0, 0]:
        raise ValueError(f"{path} is no grey PNG of 8 bits a pixel without interlacing")
    packed, at = b"", 8
    while at < len(content):
        length, kind = struct.unpack(">I4s", content[at:at + 8])
        packed += content[at + 8:at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    lines = zlib.decompress(packed)
    if len(lines) != height * (width + 1):
        raise ValueError(f"{path} has {len(lines)} bytes for {height} lines of {width} pixels")
    rows = [bytes(width)]
    for start in range(0, len(lines), width + 1):
        rows.append(_unfiltered(lines[start], lines[start + 1:start + 1 + width], rows[-1]))
    return rows[1:]


def read_sample(path, side):
    """Returns the pictures of a sample, which is a square of pictures."""
    rows = read_png(path)
    starts = range(0, len(rows), side + BORDER)
    return [tuple(pixel / 255 for row in rows[y:y + side] for pixel in row[x:x + side]) for y in starts for x in starts]


def read_idx(path, count=NUM_REAL):
    """Returns the first `count` pictures of an IDX file (.gz)."""
    with gzip.open(path) as file:
        _, _, height, width = struct.unpack(">4I", file.read(16))
        return [tuple(pixel / 255 for pixel in file.read(height * width)) for _ in range(count)]


def _mean(values):
    values = list(values)
    return math.fsum(values) / len(values)


def distance(ours, theirs):
    """Returns the energy coefficient of two sets (Székely and Rizzo, "Energy statistics", 2013), estimated without
    bias. It is about 0 if both are drawn from one distribution, and 1 if each set repeats one picture and the two
    pictures differ. A set that lacks the other's variety is far from it, however good each of its pictures is."""
    between = _mean(math.dist(a, b) for a in ours for b in theirs)
    within = sum(_mean(math.dist(a, b) for a, b in itertools.combinations(pictures, 2)) for pictures in (ours, theirs))
    return 1 - within / (2 * between)


def distance_of_files(sample, real):
    """Returns the distance of a sample from the first pictures of an IDX file (.gz). Pictures are square."""
    pictures = read_idx(real)
    return distance(read_sample(sample, math.isqrt(len(pictures[0]))), pictures)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(f"{distance_of_files(*sys.argv[1:]):.4f}")
