#!/usr/bin/env python3
"""Breaks a run on several hosts again and again, and looks whether anything was lost.

    tests/hosts/survives_faults.py [--hosts 2] [--faults 50] [--steps 4000] [--seed 1]

Hosts are network namespaces with a real sshd. Trains a small net by `tern launch`, and at random
moments kills a rank, a supervisor, an agent, everything on a host or the launching command, or cuts a
host's link for some seconds; what an agent's death takes down is brought back by `tern restart`, as a
person would. As many runs as it takes for all faults. Of each run it must hold that it finishes, that
no committed checkpoint was lost, that each step is in the run's curve once with the loss that an
uninterrupted run has, and that `tern down` leaves nothing. Needs root.
"""

import argparse
import array
import contextlib
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import time

from network import Network

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAULTS = ["rank", "supervisor", "agent", "host", "link", "launcher"]
STEPS_BETWEEN_FAULTS = 150
RUN_LIMIT_S = 300

RUN_FILE = """
recipe = "tiny"
[data]
format = "idx"
path = "{data}"
classes = 4
[augment]
flip = true
[model]
name = "small-cnn"
width = 4
dropout = 0
[optimizer]
learning_rate = 0.005
[train]
batch = 24
epochs = 100000
steps = {steps}
evaluate_every = 0
threads = 1
[checkpoint]
every = "500ms"
[ranks]
timeout = "3s"
restarts = 1000
[lease]
term = "6s"
"""


class Failure(Exception):
    pass


def write_data(folder):
    """960 pictures of 8 by 8 pixels with a bright band where their class says."""
    folder.mkdir()
    noise = random.Random(7)
    for half, count in (("train", 960), ("t10k", 48)):
        images = bytearray(struct.pack(">4i", 0x803, count, 8, 8))
        labels = bytearray(struct.pack(">2i", 0x801, count))
        for sample in range(count):
            label = sample % 4
            labels.append(label)
            images.extend(noise.randrange(120) + (120 if pixel // 16 == label else 0)
                          for pixel in range(64))
        (folder / f"{half}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{half}-labels-idx1-ubyte").write_bytes(labels)


def json_lines(path):
    records = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_text(errors="replace").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                records.append(json.loads(line))
    return records


def losses(run):
    """By step. Who lost the run without knowing it may have written on for a moment: what the later
    holder wrote counts."""
    lines = [line for line in json_lines(run / "metrics.jsonl") if "loss" in line]
    lines.sort(key=lambda line: line["lease"])
    return {line["step"]: line["loss"] for line in lines}


def last_step(run):
    return max(losses(run), default=0)


def weights(run):
    """Every number of the trained weights."""
    data = (run / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return array.array("f", data[8 + size:8 + size + (len(data) - 8 - size) // 4 * 4])


class Story:
    def __init__(self, network, options):
        self.network = network
        self.options = options
        self.random = random.Random(options.seed)
        self.tern = str(options.tern)
        self.launcher = None
        self.done = dict.fromkeys(FAULTS, 0)

    def ask(self, words, limit_s=60):
        """A command of the user's, to its end."""
        started = self.network.on_user([self.tern, *words], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
        try:
            out, err = started.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            raise Failure(f"tern {' '.join(words)} did not end within {limit_s} s") from None
        return started.returncode, out, err

    def launch(self, name, run):
        log = open(self.network.root / f"{name}.log", "w")
        hosts = ",".join(host.name for host in self.network.machines)
        self.launcher = self.network.on_user(
            [self.tern, "launch", str(self.network.root / "run.toml"), "--name", name, "--hosts", hosts,
             "--run", str(run)], stdout=log, stderr=log)
        end = time.time() + 60
        while last_step(run) == 0:
            if self.launcher.poll() not in (None, 0) or time.time() > end:
                raise Failure(f"it did not start: {(self.network.root / f'{name}.log').read_text()}")
            time.sleep(0.1)

    def kill(self, host, what):
        """SIGKILL to what is there; false if there is nothing of the kind."""
        victims = {
            "rank": lambda line: line.startswith("tern-train"),
            "supervisor": lambda line: " train " in line and not line.startswith("tern-train"),
            "agent": lambda line: " agent run" in line,
            "host": lambda line: True,
        }[what]
        pids = [pid for pid, line in host.of_tern() if victims(line)]
        if not pids:
            return False
        for pid in pids if what == "host" else [self.random.choice(pids)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return True

    def break_something(self, name):
        what = self.random.choice(FAULTS)
        host = self.random.choice(self.network.machines)
        if what == "launcher":
            if self.launcher.poll() is not None:
                return False
            os.killpg(self.launcher.pid, signal.SIGKILL)
            self.launcher.wait()
            host = self.network.user
        elif what == "link":
            self.network.cut(host)
            time.sleep(self.random.uniform(0.5, 12))
            self.network.heal(host)
        else:
            if not self.kill(host, what):
                return False
            if what in ("agent", "host"):
                time.sleep(self.random.uniform(0, 3))
                code, out, err = self.ask(["restart", name])
                if code != 0:
                    raise Failure(f"tern restart: {code} {out} {err}")
        self.done[what] += 1
        print(f"  {name}: {what} of {host.name}", flush=True)
        return True

    def run_one(self, name, faults):
        run = self.network.root / "runs" / name
        self.launch(name, run)
        end = time.time() + RUN_LIMIT_S
        broken, next_at = 0, self.random.randrange(20, STEPS_BETWEEN_FAULTS)
        while not self.is_done(run):
            if time.time() > end:
                raise Failure(f"{name} has not finished: step {last_step(run)}; {self.tail(name)}")
            step = last_step(run)
            if broken < faults and step >= next_at and step < self.options.steps - 50:
                if self.break_something(name):
                    broken += 1
                    next_at = last_step(run) + self.random.randrange(20, STEPS_BETWEEN_FAULTS)
            time.sleep(0.05)
        self.check(run)
        self.check_down(name)
        return broken

    def is_done(self, run):
        return any(line.get("kind") == "end" and line.get("status") == "done"
                   for line in json_lines(run / "ledger.jsonl")[-20:])

    def tail(self, name):
        _, status, _ = self.ask(["status", name], limit_s=90)
        return status

    def check(self, run):
        """Against the run that nobody disturbed."""
        ledger = json_lines(run / "ledger.jsonl")
        saved = 0
        for line in ledger:
            if line.get("kind") == "checkpoint":
                saved = max(saved, line["step"])
            elif line.get("kind") == "resume" and line["step"] < saved:
                raise Failure(f"step {saved} was committed, and the run went on from {line['step']}")
        curve, expected = losses(run), losses(self.reference)
        if sorted(curve) != sorted(expected):
            raise Failure(f"steps are missing: {sorted(set(expected) - set(curve))[:10]}")
        worst = max(abs(curve[step] - expected[step]) for step in expected)
        if worst > 1e-3:
            raise Failure(f"the losses differ from those of an undisturbed run by {worst}")
        far = max(abs(a - b) for a, b in zip(weights(run), weights(self.reference)))
        if far > 1e-3:
            raise Failure(f"the weights differ from those of an undisturbed run by {far}")

    def check_down(self, name):
        code, out, err = self.ask(["down", name])
        if code != 0:
            raise Failure(f"tern down: {code} {out} {err}")
        for host in self.network.machines:
            left = host.of_tern()
            if left:
                raise Failure(f"on {host.name} runs after down: {left}")
            ports = [address for address in host.listening() if not address.endswith(":22")]
            if ports:
                raise Failure(f"on {host.name} is listened on after down: {ports}")
            files = [str(path.relative_to(host.folder)) for path in host.folder.rglob("*")
                     if path.is_file() and "cache" not in path.parts]
            strange = [file for file in files if not file.startswith(("host_key", "sshd"))]
            if strange:
                raise Failure(f"on {host.name} are files after down: {strange}")

    def tell(self):
        root = self.network.root
        write_data(root / "data")
        (root / "run.toml").write_text(RUN_FILE.format(data=root / "data", steps=self.options.steps))
        self.reference = root / "runs" / "undisturbed"
        code, _, err = self.ask(["train", str(root / "run.toml"), "--run", str(self.reference)], 300)
        if code != 0:
            raise Failure(f"the undisturbed run failed: {err}")
        runs = broken = 0
        while broken < self.options.faults:
            runs += 1
            broken += self.run_one(f"run{runs}", self.options.faults - broken)
        kinds = ", ".join(f"{count} {what}" for what, count in self.done.items() if count)
        print(f"{runs} runs on {self.options.hosts} hosts, {broken} faults ({kinds}): all finished, no "
              f"checkpoint, step or sample lost or repeated, nothing left after down")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/tern")
    options = parser.parse_args()
    libtorch = subprocess.run([ROOT / "scripts/find-libtorch"], capture_output=True, text=True,
                              check=True).stdout.strip()
    with Network(options.hosts, libtorch) as network:
        story = Story(network, options)
        try:
            story.tell()
        except Failure as failure:
            print(f"FAILED (seed {options.seed}): {failure}", file=sys.stderr)
            for log in sorted(network.root.glob("h*/state/tern/agents/*/log.txt")):
                print(f"--- {log.relative_to(network.root)}\n{log.read_text()[-3000:]}",
                      file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
