#!/usr/bin/env python3
"""How fast, and how well, PyTorch trains what our recipes train: one JSON line. Run it with the Python of
scripts/fetch-peers:

    "$(scripts/fetch-peers)" bench/train_peers.py cifar10 CIFAR-FOLDER [--workers 0]
    "$(scripts/fetch-peers)" bench/train_peers.py tiny-compute
    "$(scripts/fetch-peers)" bench/train_peers.py tiny TINY-IMAGENET-FOLDER [--evaluate]

cifar10:       the net, transforms, loss and optimizer of PyTorch's tutorial, with its DataLoader; the
               images come from the binary batches and go through Pillow, as torchvision's CIFAR10 does.
tiny-compute:  ResNet-18 on one synthetic batch in memory: forward, backward, step.
tiny:          the same from 64 px JPEGs with DataLoader, Pillow and torchvision's transforms.

Rates, batch, epochs, model and schedule are read from the recipe, so both sides train the same. Eager, in
the recipe's precision. The seconds are those of the training loop, and of evaluation where it is asked
for: Python's start and reading the list of files are not in them.
"""
import argparse
import json
import math
import pathlib
import time
import tomllib

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models, transforms

RECIPES = pathlib.Path(__file__).resolve().parent.parent / "recipes"
RECIPE = {"cifar10": "cifar10-tutorial", "tiny": "tiny-imagenet-resnet18"}
WARM_STEPS = 3


class TutorialNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        x = torch.relu(self.fc1(x))
        return self.fc3(torch.relu(self.fc2(x)))


def make_network(recipe, classes):
    model = recipe["model"]
    if model["name"] == "cifar-tutorial":
        return TutorialNet()
    make = getattr(models, model["name"])
    network = make(num_classes=classes, zero_init_residual=model.get("zero_init", False))
    if model.get("stem", "imagenet") == "small":
        network.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        network.maxpool = nn.Identity()
    return network


def make_optimizer(recipe, network):
    options = recipe["optimizer"]
    decay = options.get("weight_decay", 0.0)
    parameters = list(network.parameters())
    if options.get("weight_decay_on", "all") == "weights":
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
    else:
        groups = [{"params": parameters, "weight_decay": decay}]
    return torch.optim.SGD(
        groups,
        lr=options["learning_rate"],
        momentum=options.get("momentum", 0.9),
        nesterov=options.get("nesterov", False),
    )


def rate_at(recipe, step, steps_per_epoch, steps):
    """As src/train/schedule.cc has it, for the shapes that these recipes use."""
    schedule = recipe["schedule"]
    rate = recipe["optimizer"]["learning_rate"]
    if reference := schedule.get("reference_batch", 0):
        rate *= recipe["train"]["batch"] / reference
    warmup = math.floor(schedule.get("warmup_epochs", 0) * steps_per_epoch + 0.5)
    if step < warmup:
        return rate * (step + 1) / warmup
    if schedule["shape"] == "constant":
        return rate
    assert schedule["shape"] == "cosine", schedule
    return rate * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


class CifarBatches(Dataset):
    def __init__(self, files, transform):
        records = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 3073) for file in files])
        self.labels = records[:, 0].astype(int).tolist()
        self.images = np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.images[index])), self.labels[index]


class Jpegs(Dataset):
    def __init__(self, samples, transform):
        self.samples = samples
        self.transform = transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        with Image.open(path) as image:
            return self.transform(image.convert("RGB")), label


def tiny_samples(folder):
    """Of Tiny-ImageNet's own layout: (training, test), lists of (path, class)."""
    classes = sorted((folder / "wnids.txt").read_text().split())
    number = {name: index for index, name in enumerate(classes)}
    train = [
        (str(path), number[name])
        for name in classes
        for path in sorted((folder / "train" / name / "images").iterdir())
    ]
    lines = (folder / "val/val_annotations.txt").read_text().splitlines()
    fields = [line.split("\t") for line in lines]
    test = [(str(folder / "val/images" / f[0]), number[f[1]]) for f in fields if f[1] in number]
    return train, test, len(classes)


def open_data(task, recipe, folder):
    """(training set, test set, classes)."""
    model, augment = recipe["model"], recipe.get("augment", {})
    mean, deviation = model.get("mean", [0.5] * 3), model.get("stddev", [0.5] * 3)
    plain = [transforms.ToTensor(), transforms.Normalize(mean, deviation)]
    varied = []
    size = 32 if task == "cifar10" else 64
    if pad := augment.get("pad_crop", 0):
        varied.append(transforms.RandomCrop(size, padding=pad))
    if augment.get("flip", False):
        varied.append(transforms.RandomHorizontalFlip())
    train_view, test_view = transforms.Compose(varied + plain), transforms.Compose(plain)
    if task == "cifar10":
        files = [folder / f"data_batch_{number}.bin" for number in range(1, 6)]
        test_files = [folder / "test_batch.bin"]
        return CifarBatches(files, train_view), CifarBatches(test_files, test_view), 10
    train, test, classes = tiny_samples(folder)
    return Jpegs(train, train_view), Jpegs(test, test_view), classes


def train_step(network, optimizer, images, labels, smoothing):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(network(images), labels, label_smoothing=smoothing)
    loss.backward()
    optimizer.step()
    return loss.item()


def evaluate(network, data, batch, options, memory_format):
    network.eval()
    right = 0
    with torch.no_grad():
        for images, labels in DataLoader(data, batch_size=batch, num_workers=options.workers):
            images = images.to(options.device, memory_format=memory_format)
            right += int((network(images).argmax(1).cpu() == labels).sum())
    network.train()
    return right / len(data)


def train(task, recipe, options, memory_format):
    train_data, test_data, classes = open_data(task, recipe, options.folder)
    batch, smoothing = recipe["train"]["batch"], recipe["train"].get("label_smoothing", 0.0)
    epochs = options.epochs or recipe["train"]["epochs"]
    network = make_network(recipe, classes).to(options.device, memory_format=memory_format)
    optimizer = make_optimizer(recipe, network)
    loader = DataLoader(
        train_data,
        batch_size=batch,
        shuffle=True,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )
    step, samples, losses = 0, 0, []
    began = time.perf_counter()
    for _ in range(epochs):
        for images, labels in loader:
            for group in optimizer.param_groups:
                group["lr"] = rate_at(recipe, step, len(loader), epochs * len(loader))
            images = images.to(options.device, memory_format=memory_format)
            losses.append(
                train_step(network, optimizer, images, labels.to(options.device), smoothing)
            )
            samples += len(labels)
            step += 1
            if step == options.steps:
                break
        if step == options.steps:
            break
    seconds = time.perf_counter() - began
    line = {"workers": options.workers, "epochs": epochs, "steps": step, "samples": samples}
    line["loss"] = round(sum(losses[-200:]) / len(losses[-200:]), 4)
    if options.evaluate:
        line["top1"] = round(evaluate(network, test_data, 500, options, memory_format), 4)
        seconds = time.perf_counter() - began
    return line | {"seconds": round(seconds, 3), "samples_per_s": round(samples / seconds, 1)}


def compute(recipe, options, memory_format):
    batch = recipe["train"]["batch"]
    classes = recipe["data"]["classes"]
    network = make_network(recipe, classes).to(options.device, memory_format=memory_format)
    optimizer = make_optimizer(recipe, network)
    images = torch.randn(batch, 3, 64, 64).to(options.device, memory_format=memory_format)
    labels = torch.randint(classes, (batch,)).to(options.device)
    smoothing = recipe["train"].get("label_smoothing", 0.0)
    for _ in range(WARM_STEPS):
        train_step(network, optimizer, images, labels, smoothing)
    steps = options.steps or 20
    began = time.perf_counter()
    for _ in range(steps):
        train_step(network, optimizer, images, labels, smoothing)
    seconds = time.perf_counter() - began
    rate = steps * batch / seconds
    return {"steps": steps, "seconds": round(seconds, 3), "samples_per_s": round(rate, 1)}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("task", choices=["cifar10", "tiny-compute", "tiny"])
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--recipe", type=pathlib.Path, help="another run file than the task's")
    parser.add_argument("--workers", type=int, default=2, help="of the DataLoader (2)")
    parser.add_argument("--threads", type=int, default=0, help="that compute; 0: as PyTorch chooses")
    parser.add_argument("--epochs", type=int, default=0, help="0: the recipe's")
    parser.add_argument("--steps", type=int, default=0, help="end after so many; 0: no limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory-format", default="contiguous", choices=["contiguous", "channels_last"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--evaluate", action="store_true", help="on the test data, at the end")
    options = parser.parse_args()
    if options.folder is None and options.task != "tiny-compute":
        parser.error(f"{options.task} needs the folder with the data")
    name = RECIPE[options.task.split("-")[0]]
    recipe = tomllib.loads((options.recipe or RECIPES / f"{name}.toml").read_text())
    precision = recipe["train"].get("precision", "fp32")
    if precision != "fp32":
        parser.error(f"the recipe's precision is {precision}; this bench compares in fp32")
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    memory_format = {
        "contiguous": torch.contiguous_format,
        "channels_last": torch.channels_last,
    }[options.memory_format]
    if options.task == "tiny-compute":
        line = compute(recipe, options, memory_format)
    else:
        line = train(options.task, recipe, options, memory_format)
    about = {"peer": f"torch {torch.__version__}", "task": options.task}
    about |= {"memory_format": options.memory_format, "threads": torch.get_num_threads()}
    print(json.dumps(about | line), flush=True)


if __name__ == "__main__":
    main()
