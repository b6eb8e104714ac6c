#!/usr/bin/env python3
"""Imports an ImageNet (made on the spot, as distributed) and, in turn, unpacks it the usual way.

Usage: bench/data_import.py --photos DIR [--classes N] [--rounds N] [--work DIR]

DIR holds JPEG files; they are repeated under other names to 100 training and 10 validation images a class.
The usual way is `tar x`, a `tar x` for each class (as many at a time as there are cores), and a `mv` for each
validation image. Ours is `tern data import --pack orig`, which also reads back and verifies all it has
written. Exits with 1 if ours is slower. Both read from the page cache.
"""

import argparse
import gzip
import io
import itertools
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

TERN = pathlib.Path(__file__).resolve().parent.parent / "build/release/tern"
TRAIN_PER_CLASS = 100
VAL_PER_CLASS = 10


def element(kind, body):
    """A data element of a MATLAB 5 file, padded to 8 bytes."""
    return struct.pack("<II", kind, len(body)) + body + b"\0" * (-len(body) % 8)


def array(array_class, dimensions, name, *parts):
    flags = element(6, struct.pack("<II", array_class, 0))
    sizes = element(5, struct.pack(f"<{len(dimensions)}i", *dimensions))
    return element(14, flags + sizes + element(1, name) + b"".join(parts))


def meta_mat(wnids):
    """data/meta.mat of the devkit, as far as it is read: a struct array `synsets`."""
    fields = (b"ILSVRC2012_ID", b"WNID", b"words")
    names = element(5, struct.pack("<i", 32)) + element(1, b"".join(f.ljust(32, b"\0") for f in fields))
    values = b""
    for number, wnid in enumerate(wnids, 1):
        text = wnid.encode()
        values += array(6, (1, 1), b"", element(9, struct.pack("<d", number)))
        for _ in ("WNID", "words"):
            values += array(4, (1, len(text)), b"", element(4, struct.pack(f"<{len(text)}H", *text)))
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    return header + array(2, (len(wnids), 1), b"synsets", names, values)


def add(archive, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def make_imagenet(folder, photos, classes):
    wnids = [f"n{i:08}" for i in range(classes)]
    images = itertools.cycle([path.read_bytes() for path in photos])
    with tarfile.open(folder / "ILSVRC2012_img_train.tar", "w") as train:
        for wnid in wnids:
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as one:
                for number in range(TRAIN_PER_CLASS):
                    add(one, f"{wnid}_{number}.JPEG", next(images))
            add(train, f"{wnid}.tar", inner.getvalue())
    truth = []
    with tarfile.open(folder / "ILSVRC2012_img_val.tar", "w") as val:
        for number in range(classes * VAL_PER_CLASS):
            add(val, f"ILSVRC2012_val_{number + 1:08}.JPEG", next(images))
            truth.append(number % classes + 1)
    with gzip.open(folder / "ILSVRC2012_devkit_t12.tar.gz", "wb") as packed:
        with tarfile.open(fileobj=packed, mode="w") as devkit:
            data = "ILSVRC2012_devkit_t12/data/"
            add(devkit, data + "meta.mat", meta_mat(wnids))
            lines = "".join(f"{label}\n" for label in truth).encode()
            add(devkit, data + "ILSVRC2012_validation_ground_truth.txt", lines)
    script = "".join(
        f"mv val/ILSVRC2012_val_{number:08}.JPEG val/{wnids[label - 1]}/\n"
        for number, label in enumerate(truth, 1)
    )
    (folder / "valprep.sh").write_text("".join(f"mkdir val/{w}\n" for w in wnids) + script)


USUAL = """set -e
mkdir train val
tar xf "$1/ILSVRC2012_img_train.tar" -C train
ls train/*.tar | xargs -P "$2" -I@ sh -c 'd="${1%.tar}"; mkdir "$d"; tar xf "$1" -C "$d"; rm "$1"' - @
tar xf "$1/ILSVRC2012_img_val.tar" -C val
sh "$1/valprep.sh"
"""


def timed(command, **more):
    start = time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"failed: {command}\n{done.stderr}")
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--photos", type=pathlib.Path, required=True)
    parser.add_argument("--classes", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=pathlib.Path)
    options = parser.parse_args()
    photos = sorted(options.photos.rglob("*.jpg"))
    ours, usual = [], []
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        source, target = pathlib.Path(work, "source"), pathlib.Path(work, "target")
        source.mkdir()
        make_imagenet(source, photos, options.classes)
        for _ in range(options.rounds):
            target.mkdir()
            usual.append(timed(["sh", "-c", USUAL, "usual", source, os.cpu_count()], cwd=target))
            shutil.rmtree(target)
            ours.append(timed([TERN, "data", "import", source, target, "--pack", "orig"]))
            shutil.rmtree(target)
        megabytes = sum(path.stat().st_size for path in source.iterdir()) / 1e6
    images = options.classes * (TRAIN_PER_CLASS + VAL_PER_CLASS)
    for name, seconds in (("tar x and scripts", min(usual)), ("tern data import", min(ours))):
        print(f"{name:20}{seconds:8.2f} s{images / seconds:10,.0f} images/s{megabytes / seconds:8,.0f} MB/s")
    ratio = min(usual) / min(ours)
    print(f"\n{ratio:.2f} times as fast; at least 1.0 is asked: {'kept' if ratio >= 1 else 'MISSED'}")
    sys.exit(0 if ratio >= 1 else 1)


if __name__ == "__main__":
    main()
