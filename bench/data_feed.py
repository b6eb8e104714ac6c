#!/usr/bin/env python3
"""Feeds images by `tern data bench` and by its peers in turn, and prints both sides with their ratio.

Usage: bench/data_feed.py --data DIR [--peers PYTHON] [--rounds N] [--work DIR]

DIR holds hymenoptera-200.tar (JPEGs of 110 KB, ants and bees) and tiny-imagenet-32.tar.xz. PYTHON is the
interpreter of scripts/fetch-peers. Both sides take turns, N rounds (2), and of each the best round counts:
these machines are noisy. Exits with 1 if a limit is missed. Run it on a machine that does nothing else.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TERN = HERE.parent / "build/release/tern"

# (task, ours, peer, must, aim): ours and peer are names of rows, the figures least ratios.
LIMITS = [
    ("rrc224", "tern", "torch-pillow", 1.8, None),
    ("rrc224", "tern", "torch-torchvision", 1.2, None),
    ("rrc224", "tern", "fastest of dali, dali-no-antialias, ffcv-orig", 1.05, 1.4),
    ("pad64", "tern raw", "ffcv-raw", 1.0, 1.5),
    ("pad64", "tern jpeg", "dali", 1.5, 2.0),
    ("pad64", "tern jpeg", "torch-pillow", 4.0, None),
    ("formats", "tern base", "tern progressive", 2.0, 2.4),
    ("formats", "tern short:256:q90", "tern", 3.0, 3.5),
]


def run(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(str(word) for word in command)}\n{done.stderr}")
    return done.stdout


def tern_rate(data, *flags):
    line = json.loads(run([TERN, "data", "bench", data, "--json", "--passes", 3, *flags]))
    return line["samples_per_s"], line["samples_per_cpu_s"]


CROP = ["--batch", 32, "--samples", 3000, "--set", "image.size=224", "--set", "augment.flip=true"]
TINY = ["--batch", 256, "--samples", 48000, "--set", "augment.flip=true", "--set", "augment.pad_crop=4"]


# The same pictures as progressive JPEG.
MAKE_PROGRESSIVE = """
import pathlib, sys
from PIL import Image
source, target = map(pathlib.Path, sys.argv[1:])
for path in source.rglob("*.jpg"):
    copy = target / path.relative_to(source)
    copy.parent.mkdir(parents=True, exist_ok=True)
    Image.open(path).convert("RGB").save(copy, "JPEG", quality=95, subsampling=0, progressive=True)
"""


def prepare(data, work, peers):
    """The folders and data sets that both sides read."""
    for name in ("hymenoptera-200.tar", "tiny-imagenet-32.tar.xz"):
        with tarfile.open(data / name) as archive:
            archive.extractall(work / name.split("-")[0], filter="data")
    photos = next((work / "hymenoptera").rglob("train")).parent
    tiny = next((work / "tiny").rglob("wnids.txt")).parent
    progressive = work / "progressive"
    run([peers, "-c", MAKE_PROGRESSIVE, photos, progressive])
    sets = {}
    for name, source, how in (
        ("orig", photos, "orig"),
        ("short", photos, "short:256:q90"),
        ("progressive", progressive, "orig"),
        ("base", progressive, "base"),
        ("tiny-jpeg", tiny, "orig"),
        ("tiny-raw", tiny, "raw"),
    ):
        sets[name] = work / "sets" / name
        run([TERN, "data", "import", source, sets[name], "--pack", how])
    return photos, tiny, sets


def one_round(photos, tiny, sets, peers, rows):
    def add(task, name, figures):
        best = rows.setdefault((task, name), figures)
        rows[task, name] = tuple(max(pair) for pair in zip(best, figures))

    def peer(task, name, folder):
        command = [peers, HERE / "data_peers.py", task, folder / "train", "--peer", name]
        line = json.loads(run(command).splitlines()[-1])
        add(task, name, (line["images_per_s"], line["images_per_cpu_s"]))

    add("rrc224", "tern", tern_rate(sets["orig"], *CROP))
    for name in ("torch-pillow", "torch-torchvision", "dali", "dali-no-antialias", "ffcv-orig"):
        peer("rrc224", name, photos)
    add("pad64", "tern raw", tern_rate(sets["tiny-raw"], *TINY))
    add("pad64", "tern jpeg", tern_rate(sets["tiny-jpeg"], *TINY))
    for name in ("torch-pillow", "dali", "ffcv-raw"):
        peer("pad64", name, tiny)
    add("formats", "tern", tern_rate(sets["orig"], *CROP))
    add("formats", "tern short:256:q90", tern_rate(sets["short"], *CROP))
    add("formats", "tern progressive", tern_rate(sets["progressive"], *CROP))
    add("formats", "tern base", tern_rate(sets["base"], *CROP))


def verdict(rows):
    kept = True
    print(f"\n{'task':9}{'ours':20}{'against':48}{'must':>6}{'aim':>6}{'img/s':>8}{'per CPU s':>11}")
    for task, ours, against, must, aim in LIMITS:
        names = against.removeprefix("fastest of ").split(", ")
        ratios = [rows[task, ours][i] / max(rows[task, name][i] for name in names) for i in (0, 1)]
        missed = min(ratios) < must
        kept = kept and not missed
        print(
            f"{task:9}{ours:20}{against:48}{must:6}{aim or '':>6}{ratios[0]:8.2f}{ratios[1]:11.2f}"
            + ("   MISSED" if missed else "")
        )
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    parser.add_argument("--peers", default=cache / "tern/peers-1/bin/python")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--work", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        photos, tiny, sets = prepare(options.data, pathlib.Path(work), options.peers)
        rows = {}
        for _ in range(options.rounds):
            one_round(photos, tiny, sets, options.peers, rows)
    print(f"{'task':9}{'who':20}{'images/s':>12}{'per CPU s':>12}")
    for (task, name), (rate, cpu_rate) in rows.items():
        print(f"{task:9}{name:20}{rate:12,.0f}{cpu_rate:12,.0f}")
    sys.exit(0 if verdict(rows) else 1)


if __name__ == "__main__":
    main()
