"""Writes small PNG pictures of flags: a folder per class, in train/ and val/. Python's own library only."""

import pathlib
import random
import struct
import sys
import zlib


def png(width, height, pixel):
    """An RGB picture; pixel(x, y) gives three numbers from 0 to 255."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(
        b"\0" + bytes(value for x in range(width) for value in pixel(x, y)) for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def flag(kind, chance):
    """One picture: upright stripes, level stripes or a disc, in random colours under noise."""
    width, height = chance.randint(40, 64), chance.randint(32, 48)
    dark = [chance.randint(0, 90) for _ in range(3)]
    light = [chance.randint(150, 220) for _ in range(3)]

    def pixel(x, y):
        if kind == "disc":
            is_light = (x - width / 2) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2
        else:
            is_light = (3 * x // width if kind == "upright" else 3 * y // height) == 1
        return [value + chance.randint(0, 30) for value in (light if is_light else dark)]

    return png(width, height, pixel)


folder = pathlib.Path(sys.argv[1])
chance = random.Random(1)
for split, count in (("train", 60), ("val", 20)):
    for kind in ("disc", "level", "upright"):
        place = folder / split / kind
        place.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (place / f"{number:03}.png").write_bytes(flag(kind, chance))
(folder / "train/disc/broken.png").write_bytes(b"no picture at all")
