#!/usr/bin/env python3
"""Trains by `tern` and by PyTorch in turn, and prints both sides with their ratio.

Usage: bench/train_speed.py TASK... [--cifar DIR] [--tiny DIR] [--rounds N] [--device cuda] [--peers PYTHON] [--work DIR]

TASK is one or more of
  cifar10        cifar10-tutorial end to end, with one evaluation at the end (--epochs N; 1)
  tiny-compute   a step of tiny-imagenet-resnet18 on synthetic data: `tern plan --probe` and eager PyTorch
  tiny           an epoch of it from JPEG, without evaluation; and what the step loop costs
                 beyond LibTorch's own calls
  tiny-accuracy  all epochs of it, for --seeds N (3) seeds: top-1 on the test data, both sides

--cifar is the folder with data_batch_1.bin and so on, --tiny one in Tiny-ImageNet's layout (train, val,
wnids.txt; some of the classes will do). PYTHON is the interpreter of scripts/fetch-peers. Sides take turns,
N rounds (2), and of each the best round counts: these machines are noisy. Our seconds are those of the
whole process, from its start to its exit, checkpoints included; PyTorch's those of its loop alone. PyTorch
is measured in every variant listed below, and its best counts. Exits with 1 if a limit is missed. Run it
on a machine that does nothing else.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TASKS = ["cifar10", "tiny-compute", "tiny", "tiny-accuracy"]

# task: (least ratio, aim). Those of speed are ours by the peer's best.
LIMITS = {"cifar10": (1.3, 5.0), "tiny-compute": (1.0, 1.15), "tiny": (1.1, 1.2)}
POINTS_MAX = 2.0  # that the mean accuracies may differ by
LOOP_MAX = 0.01  # of a step's compute: the step loop outside of LibTorch's calls

# What PyTorch is tried with.
CIFAR_VARIANTS = {
    "torch, 0 workers": ["--workers", 0],
    "torch, 2 workers": ["--workers", 2],
    "torch, 2 workers, 1 thread": ["--workers", 2, "--threads", 1],
}
FORMATS = ["contiguous", "channels_last"]


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(str(word) for word in command)}\n{done.stderr}")
    return done.stdout


class Bench:
    def __init__(self, options, work):
        self.options = options
        self.work = work
        self.rows = {}  # (task, who): best samples per second
        self.loops = []  # of each run: the loop's own time as a part of compute

    def add(self, task, who, rate):
        self.rows[task, who] = max(rate, self.rows.get((task, who), 0))
        print(f"{task:14}{who:34}{rate:12,.1f} samples/s", flush=True)

    def peer(self, task, *flags):
        command = [self.options.peers, HERE / "train_peers.py", task, *flags]
        command += ["--device", self.options.device]
        return json.loads(run(command).splitlines()[-1])

    def train(self, recipe, settings):
        """Runs `tern train` and returns (seconds of the whole process, its report)."""
        folder = self.work / "run"
        command = [self.options.tern, "train", recipe, "--fresh", "--run", folder]
        command += ["--set", f'train.device="{self.options.device}"']
        for setting in settings:
            command += ["--set", setting]
        began = time.perf_counter()
        run(command)
        seconds = time.perf_counter() - began
        return seconds, json.loads(run([self.options.tern, "report", folder, "--json"]))

    def cifar10(self):
        epochs = self.options.epochs
        settings = [f"data.path={self.options.cifar}", f"train.epochs={epochs}"]
        seconds, report = self.train(
            "cifar10-tutorial", [*settings, f"train.evaluate_every={epochs}"]
        )
        self.add("cifar10", "tern", report["samples"] / seconds)
        print(f"    {seconds / epochs:.1f} s an epoch, top-1 {100 * report['top1']:.2f} %")
        for who, flags in CIFAR_VARIANTS.items():
            line = self.peer(
                "cifar10", self.options.cifar, "--epochs", epochs, "--evaluate", *flags
            )
            self.add("cifar10", who, line["samples_per_s"])
            print(f"    {line['seconds'] / epochs:.1f} s an epoch, top-1 {100 * line['top1']:.2f} %")

    def tiny_set(self):
        """Tiny-ImageNet indexed where it lies, so that both sides read the same JPEGs."""
        folder = self.work / "tiny"
        if not folder.exists():
            run([self.options.tern, "data", "import", self.options.tiny, folder])
        classes = len((self.options.tiny / "wnids.txt").read_text().split())
        return [f"data.path={folder}", f"data.classes={classes}"]

    def tiny_compute(self):
        command = [self.options.tern, "plan", "tiny-imagenet-resnet18", "--probe", "--json"]
        command += ["--set", f'train.device="{self.options.device}"']
        for setting in self.tiny_set():
            command += ["--set", setting]
        plan = json.loads(run(command))
        rate = plan["phases"][0]["compute_samples_per_second"]
        self.add("tiny-compute", "tern", rate)
        for name in FORMATS:
            line = self.peer("tiny-compute", "--memory-format", name)
            self.add("tiny-compute", f"torch, {name}", line["samples_per_s"])

    def better_format(self):
        """By what tiny-compute found, where it was asked for."""
        rates = {name: self.rows.get(("tiny-compute", f"torch, {name}"), 0) for name in FORMATS}
        return max(rates, key=rates.get) if any(rates.values()) else "channels_last"

    def tiny(self):
        settings = [*self.tiny_set(), "train.epochs=1"]
        seconds, report = self.train(
            "tiny-imagenet-resnet18", [*settings, "train.evaluate_every=0"]
        )
        self.add("tiny", "tern", report["samples"] / seconds)
        self.loops.append(self.loop_cost())
        name = self.better_format()
        for workers in (2, 4):
            flags = ["--epochs", 1, "--memory-format", name, "--workers", workers]
            line = self.peer("tiny", self.options.tiny, *flags)
            self.add("tiny", f"torch, {name}, {workers} workers", line["samples_per_s"])

    def loop_cost(self):
        """The loop's own time in the run's steps, by that of their compute; waiting for data and the copy
        to the device are neither. The first step has the start in it."""
        lines = map(json.loads, (self.work / "run/metrics.jsonl").read_text().splitlines())
        spans = [line["us"] for line in lines if "us" in line][1:]
        own, compute = (sum(us.get(name, 0) for us in spans) for name in ("other", "compute"))
        print(f"    loop: {own / len(spans):.0f} us a step, {100 * own / compute:.3f} % of its compute")
        return own / compute

    def tiny_accuracy(self):
        """True if the means over the seeds are close enough."""
        ours, theirs = [], []
        for seed in range(1, self.options.seeds + 1):
            _, report = self.train(
                "tiny-imagenet-resnet18", [*self.tiny_set(), f"train.seed={seed}"]
            )
            ours.append(100 * report["top1"])
            flags = ["--seed", seed, "--evaluate", "--memory-format", self.better_format()]
            theirs.append(100 * self.peer("tiny", self.options.tiny, *flags)["top1"])
            print(f"tiny-accuracy seed {seed}: tern {ours[-1]:.2f} %, torch {theirs[-1]:.2f} %", flush=True)
        apart = statistics.mean(ours) - statistics.mean(theirs)
        kept = abs(apart) <= POINTS_MAX
        print(
            f"tiny-accuracy mean of {len(ours)}: tern {statistics.mean(ours):.2f} %, "
            f"torch {statistics.mean(theirs):.2f} %, {apart:+.2f} points "
            f"(at most {POINTS_MAX} apart){'' if kept else '   MISSED'}"
        )
        return kept

    def verdict(self):
        kept = True
        print(f"\n{'task':14}{'ours':>12}{'best peer':>12}{'ratio':>8}{'must':>7}{'aim':>7}  peer")
        for task, (must, aim) in LIMITS.items():
            peers = {who: rate for (t, who), rate in self.rows.items() if t == task and who != "tern"}
            if not peers:
                continue
            best = max(peers, key=peers.get)
            ratio = self.rows[task, "tern"] / peers[best]
            kept = kept and ratio >= must
            print(
                f"{task:14}{self.rows[task, 'tern']:12,.1f}{peers[best]:12,.1f}{ratio:8.2f}"
                f"{must:7}{aim:7}  {best}{'' if ratio >= must else '   MISSED'}"
            )
        if self.loops:
            cost = min(self.loops)
            kept = kept and cost <= LOOP_MAX
            print(
                f"step loop: {100 * cost:.3f} % of a step's compute (at most {100 * LOOP_MAX:g} %)"
                f"{'' if cost <= LOOP_MAX else '   MISSED'}"
            )
        return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="+", choices=TASKS, metavar="TASK")
    parser.add_argument("--cifar", type=pathlib.Path)
    parser.add_argument("--tiny", type=pathlib.Path)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    parser.add_argument("--peers", default=cache / "tern/peers-1/bin/python")
    parser.add_argument("--tern", default=HERE.parent / "build/release/tern")
    parser.add_argument("--work", type=pathlib.Path)
    options = parser.parse_args()
    if "cifar10" in options.tasks and options.cifar is None:
        parser.error("cifar10 needs --cifar DIR")
    if any(task.startswith("tiny") for task in options.tasks) and options.tiny is None:
        parser.error("tiny, tiny-compute and tiny-accuracy need --tiny DIR")
    tasks = [task for task in TASKS if task in options.tasks]  # tiny-compute first: it finds the format
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        bench = Bench(options, pathlib.Path(work))
        for _ in range(options.rounds):
            for task in tasks:
                if task != "tiny-accuracy":
                    getattr(bench, task.replace("-", "_"))()
        kept = bench.tiny_accuracy() if "tiny-accuracy" in tasks else True
        kept = bench.verdict() and kept
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
