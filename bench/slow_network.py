#!/usr/bin/env python3
"""How much of a slow link do gradients use? Four hosts, 100 Mbit/s each, one rank on each.

    cmake --build build/release --target tern tern-train
    bench/slow_network.py [--hosts 4] [--mbit 100] [--steps 12]

Hosts are network namespaces with a real sshd and a token bucket on each one's interface. Trains ResNet-18
by `tern launch`; its gradients (45 MB) take seconds on such a link, and the rest of a step a fraction of
one. Prints bytes that a rank sends a step (a ring's 2 (n - 1) / n of the gradients), the time of a step,
and the share of the link: bytes by the time of the whole step, so that nothing is hidden. Needs root.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/hosts"))

from network import Network, run  # noqa: E402
from survives_faults import json_lines, write_data  # noqa: E402

SHARE = 0.85

RUN_FILE = """
[data]
format = "idx"
path = "{data}"
classes = 4
[model]
name = "resnet18"
stem = "small"
[train]
batch = 32
steps = {steps}
evaluate_every = 0
threads = 1
[checkpoint]
every = "1h"
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--mbit", type=int, default=100)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--tern", default=str(ROOT / "build/release/tern"))
    args = parser.parse_args()
    libtorch = subprocess.run([ROOT / "scripts/find-libtorch"], capture_output=True, text=True,
                              check=True).stdout.strip()
    with Network(args.hosts, libtorch) as network:
        write_data(network.root / "data")
        (network.root / "run.toml").write_text(
            RUN_FILE.format(data=network.root / "data", steps=args.steps))
        for host in network.machines:
            run(["ip", "netns", "exec", host.namespace, "tc", "qdisc", "add", "dev", "eth0", "root",
                 "tbf", "rate", f"{args.mbit}mbit", "burst", "64kb", "latency", "50ms"])
        place = network.root / "runs/slow"
        began = time.time()
        done = network.on_user(
            [args.tern, "launch", str(network.root / "run.toml"), "--name", "slow", "--hosts",
             ",".join(host.name for host in network.machines), "--run", str(place)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = done.communicate(timeout=900)[0]
        if done.returncode != 0:
            sys.exit(f"it failed: {text[-3000:]}")
        network.on_user([args.tern, "down", "slow"], stdout=subprocess.DEVNULL).wait()
        steps = [line for line in json_lines(place / "metrics.jsonl") if "loss" in line]
        end = [line for line in json_lines(place / "ledger.jsonl") if line.get("kind") == "end"][-1]
        report = network.on_user([args.tern, "report", str(place)], stdout=subprocess.PIPE)
        print(report.communicate()[0])
    seconds = [sum(line["us"].values()) / 1e6 for line in steps[2:]]
    sent = end["ranks"]["bytes_per_step"]
    step = statistics.median(seconds)
    share = sent * 8 / step / (args.mbit * 1e6)
    print(f"{args.hosts} hosts at {args.mbit} Mbit/s, {len(seconds)} steps, {time.time() - began:.0f} s in all")
    print(f"sent by a rank in a step   {sent / 1e6:8.1f} MB")
    print(f"a step                     {step:8.3f} s (worst {max(seconds):.3f})")
    print(f"share of the link          {share:8.3f}")
    if share < SHARE:
        sys.exit(f"less than {SHARE} of the link is used")


if __name__ == "__main__":
    main()
