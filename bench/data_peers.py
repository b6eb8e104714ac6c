#!/usr/bin/env python3
"""How fast other loaders feed the same JPEGs: one JSON line per peer, in images per second of wall
time and of CPU time (workers included). Run it with the Python of scripts/fetch-peers:

    "$(scripts/fetch-peers)" bench/data_peers.py rrc224 FOLDER-OF-JPEGS [--peer NAME]...
    "$(scripts/fetch-peers)" bench/data_peers.py pad64 FOLDER-OF-64x64-JPEGS

rrc224: random-resized-crop to 224 (area 0.08 to 1), flip; batches of 32; 3,000 images a pass.
pad64:  pad by 4, crop to 64, flip; batches of 256; 48,000 images a pass.
All give uint8 with the channels first, FFCV as a view of channels-last memory, which is its fastest
way. Two workers or threads each, every peer in a process of its own, the best of three passes after
one that is not counted. Files are expected to be in the page cache.
"""
import argparse
import glob
import itertools
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

WORKERS = 2
PASSES = 3
BATCH = {"rrc224": 32, "pad64": 256}
IMAGES = {"rrc224": 3_000, "pad64": 48_000}
AREA = (0.08, 1.0)
PAD = 4


def cpu_seconds():
    """Of this process and all its children, those that live and those that were joined."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    for path in glob.glob("/proc/self/task/*/children"):
        for child in pathlib.Path(path).read_text().split():
            fields = pathlib.Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def measure(run_pass):
    """run_pass() goes through the data once and returns how many images came."""
    run_pass()
    by_wall, by_cpu = [], []
    for _ in range(PASSES):
        wall, cpu = time.perf_counter(), cpu_seconds()
        images = run_pass()
        by_wall.append(images / (time.perf_counter() - wall))
        by_cpu.append(images / (cpu_seconds() - cpu))
    return {"images_per_s": round(max(by_wall)), "images_per_cpu_s": round(max(by_cpu))}


def torch_pass(task, files, decode, transforms):
    """A DataLoader over `files`; `transforms` is torchvision's module of them."""
    import torch

    geometry = (
        [transforms.RandomResizedCrop(224, scale=AREA, antialias=True)]
        if task == "rrc224"
        else [transforms.RandomCrop(64, padding=PAD)]
    )
    transform = transforms.Compose(geometry + [transforms.RandomHorizontalFlip()])

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return len(files)

        def __getitem__(self, index):
            return decode(files[index], transform)

    loader = torch.utils.data.DataLoader(
        Images(), batch_size=BATCH[task], shuffle=True, num_workers=WORKERS, persistent_workers=True
    )
    return lambda: sum(len(batch) for batch in loader)


def torch_pillow(task, files):
    from PIL import Image
    from torchvision import transforms

    to_tensor = transforms.PILToTensor()

    def decode(path, transform):
        with Image.open(path) as image:
            return to_tensor(transform(image.convert("RGB")))

    return torch_pass(task, files, decode, transforms)


def torch_torchvision(task, files):
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    from torchvision.transforms import v2

    def decode(path, transform):
        return transform(decode_jpeg(read_file(path), mode=ImageReadMode.RGB))

    return torch_pass(task, files, decode, v2)


def dali(task, files, antialias=True):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH[task], num_threads=WORKERS, device_id=None, seed=1)
    def pipeline():
        stored, _ = fn.readers.file(files=files, random_shuffle=True, name="files")
        if task == "rrc224":
            images = fn.decoders.image_random_crop(
                stored, random_area=AREA, random_aspect_ratio=(3 / 4, 4 / 3)
            )
            images = fn.resize(images, size=(224, 224), antialias=antialias)
        else:
            images = fn.decoders.image(stored)
            shifts = list(range(-PAD, PAD + 1))
            start = fn.random.uniform(values=shifts, shape=2, dtype=types.INT32)
            images = fn.slice(
                images, start, (64, 64), axes=(0, 1), out_of_bounds_policy="pad", fill_values=0
            )
        mirror = fn.random.coin_flip()
        return fn.crop_mirror_normalize(
            images, mirror=mirror, dtype=types.UINT8, output_layout="CHW"
        )

    pipe = pipeline()
    pipe.build()
    batches = len(files) // BATCH[task]
    return lambda: sum(len(pipe.run()[0]) for _ in range(batches))


def ffcv(task, files, keep_jpeg):
    import numpy as np
    from ffcv.fields import RGBImageField
    from ffcv.fields.rgb_image import IMAGE_MODES, RandomResizedCropRGBImageDecoder
    from ffcv.fields.rgb_image import SimpleRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip, RandomTranslate, ToTensor, ToTorchImage
    from ffcv.writer import DatasetWriter
    from PIL import Image

    def keep_bytes(_, destination, image, malloc):
        stored = np.fromfile(image.filename, dtype="<u1")
        destination["mode"] = IMAGE_MODES["jpg"]
        destination["width"], destination["height"] = image.size
        destination["data_ptr"], storage = malloc(stored.nbytes)
        storage[:] = stored

    if keep_jpeg:
        RGBImageField.encode = keep_bytes  # which would encode JPEG anew

    class Images:
        def __init__(self, paths):
            self.paths = paths

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            image = Image.open(self.paths[index])
            return (image if keep_jpeg else image.convert("RGB"),)

    paths = sorted(set(files))
    scratch = tempfile.TemporaryDirectory()  # removed when the process ends
    beton = os.path.join(scratch.name, "images.beton")
    writer = DatasetWriter(beton, {"image": RGBImageField()}, num_workers=WORKERS)
    writer.from_indexed_dataset(Images(paths))
    decoders = (
        [RandomResizedCropRGBImageDecoder((224, 224), scale=AREA)]
        if task == "rrc224"
        else [SimpleRGBImageDecoder(), RandomTranslate(padding=PAD)]
    )
    loader = Loader(
        beton,
        batch_size=BATCH[task],
        num_workers=WORKERS,
        order=OrderOption.RANDOM,
        indices=np.resize(np.arange(len(paths)), len(files)),
        os_cache=True,
        pipelines={"image": decoders + [RandomHorizontalFlip(), ToTensor(), ToTorchImage()]},
    )
    return lambda: sum(len(batch[0]) for batch in loader if scratch)


PEERS = {
    "torch-pillow": torch_pillow,
    "torch-torchvision": torch_torchvision,
    "dali": dali,
    "dali-no-antialias": lambda task, files: dali(task, files, antialias=False),
    "ffcv-orig": lambda task, files: ffcv(task, files, keep_jpeg=True),
    "ffcv-raw": lambda task, files: ffcv(task, files, keep_jpeg=False),
}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("task", choices=BATCH)
    parser.add_argument("folder")
    parser.add_argument("--peer", action="append", choices=PEERS)
    parser.add_argument("--images", type=int, default=0)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    peers = arguments.peer or list(PEERS)
    if arguments.task == "pad64" and not arguments.peer:
        peers.remove("dali-no-antialias")  # nothing is resized
    if not arguments.here:
        for peer in peers:
            subprocess.run([sys.executable, *sys.argv, "--peer", peer, "--here"], check=True)
        return
    found = sorted(
        str(path)
        for path in pathlib.Path(arguments.folder).rglob("*")
        if path.suffix.lower() in (".jpg", ".jpeg")
    )
    if not found:
        sys.exit(f"{arguments.folder} holds no .jpg or .jpeg files")
    images = arguments.images or IMAGES[arguments.task]
    files = list(itertools.islice(itertools.cycle(found), images))
    peer = peers[-1]
    figures = measure(PEERS[peer](arguments.task, files))
    print(json.dumps({"peer": peer, "task": arguments.task, **figures}), flush=True)


if __name__ == "__main__":
    main()
