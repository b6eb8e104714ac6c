#!/usr/bin/env python3
"""Breaks a run on several hosts again and again, and looks whether anything was lost.

    tests/hosts/survives_faults.py [--hosts 2] [--spares 0] [--faults 50] [--steps 4000] [--seed 1]

Hosts are network namespaces with a real sshd. Trains a small net by `tern launch`, and at random
moments kills a rank, a supervisor, an agent, everything on a host or the launching command, or cuts a
host's link for some seconds; what an agent's death takes down is brought back by `tern restart`, as a
person would. With spares, each run first loses so many hosts for good, by their power or their link,
and must be at full strength again. As many runs as it takes for all faults.

Of each run it must hold that it finishes, that no committed checkpoint was lost, that each step is in
the run's curve once with the samples and the loss that an uninterrupted run has, and that `tern down`
leaves nothing. Needs root.
"""

import argparse
import array
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

from network import Network

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAULTS = ["rank", "supervisor", "agent", "host", "link", "launcher"]
STEPS_BETWEEN_FAULTS = 150
BATCH = 24
# Sums are added up in another order where other ranks add them. At a learning rate as low as this
# one that stays below 1e-6, and does not grow: at higher ones a unit that falls to another side of
# its kink sets two runs apart. A sample in the place of another changes its step's loss by 1e-3, and
# an update that is done twice or not at all the weights by 3e-5.
ROUNDING = 1e-5

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
learning_rate = 0.0001
[train]
batch = {batch}
epochs = 100000
steps = {steps}
evaluate_every = 0
threads = 1
[checkpoint]
every = "500ms"
[ranks]
timeout = "3s"
restarts = 1000
spare_after = "2s"
[lease]
term = "6s"
"""


class Failure(Exception):
    pass


def write_data(folder):
    """960 pictures of 8 by 8 pixels with a bright band where their class says; some are of another
    class than they look, so that their losses differ."""
    folder.mkdir()
    noise = random.Random(7)
    for half, count in (("train", 960), ("t10k", 48)):
        images = bytearray(struct.pack(">4i", 0x803, count, 8, 8))
        labels = bytearray(struct.pack(">2i", 0x801, count))
        for sample in range(count):
            label = sample % 4
            labels.append(noise.randrange(4) if noise.random() < 0.3 else label)
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


def of_kind(run, kind):
    return [line for line in json_lines(run / "ledger.jsonl") if line.get("kind") == kind]


def curve(run):
    """The lines of the metrics by step. Who lost the run without knowing it may have written on for a
    moment: what the later holder wrote counts."""
    lines = [line for line in json_lines(run / "metrics.jsonl") if "loss" in line]
    lines.sort(key=lambda line: line["lease"])
    return {line["step"]: line for line in lines}


def last_step(run):
    """Of the newest lines alone: it is asked often."""
    with contextlib.suppress(FileNotFoundError), open(run / "metrics.jsonl", "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 10_000))
        for line in reversed(file.read().decode(errors="replace").splitlines()):
            with contextlib.suppress(json.JSONDecodeError, TypeError, KeyError):
                return json.loads(line)["step"]
    return 0


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
        self.lost = []  # hosts of this run that are lost for good
        self.done = dict.fromkeys(FAULTS + ["power", "cut"], 0)
        self.broken = 0  # in all runs
        self.began = time.time()

    @property
    def standing(self):
        return [host for host in self.network.machines if host not in self.lost]

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

    def must(self, words, limit_s=60):
        code, out, err = self.ask(words, limit_s)
        if code != 0:
            raise Failure(f"tern {' '.join(words)}: {code} {out} {err}")
        return out

    def tell(self, name, run, what):
        """Where it is, and when it may be done."""
        passed = time.time() - self.began
        share = self.broken / max(1, self.options.faults)
        left = f", about {passed / share - passed:.0f} s left" if 0 < share < 1 else ""
        print(f"  {name}, step {last_step(run)} of {self.options.steps}: {what} "
              f"({self.broken} of {self.options.faults} faults in {passed:.0f} s{left})", flush=True)

    def launch(self, name, run):
        log = open(self.network.root / f"{name}.log", "w")
        self.launcher = self.network.on_user(
            [self.tern, "launch", str(self.network.root / "run.toml"), "--name", name, "--hosts",
             str(self.network.root / "hosts.toml"), "--run", str(run)], stdout=log, stderr=log)
        end = time.time() + 90
        while last_step(run) == 0:
            if self.launcher.poll() not in (None, 0) or time.time() > end:
                raise Failure(f"it did not start: {(self.network.root / f'{name}.log').read_text()}")
            time.sleep(0.1)

    def check_ports(self):
        """While it runs: on the loopback or the run's interface, nothing else."""
        for host in self.standing:
            ports = host.listening()
            own = [port for port in ports if port.startswith(f"{host.address}:")
                   and not port.endswith(":22")]
            strange = [port for port in ports
                       if not port.startswith((f"{host.address}:", "127.0.0.1:"))]
            if strange or not own:
                raise Failure(f"on {host.name} is listened on {ports}")

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

    def break_something(self, name, run):
        what = self.random.choice(FAULTS)
        host = self.random.choice(self.standing)
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
                self.must(["restart", name, "--machine", host.name])
        self.done[what] += 1
        self.broken += 1
        self.tell(name, run, f"{what} of {host.name}")
        return True

    def lose_for_good(self, name, run):
        """A host that works vanishes and stays away; a spare must take its place."""
        states = self.states(name)
        working = [host for host in self.standing if states[host.name].get("role") != "resting"]
        resting = [host for host in self.standing if states[host.name].get("role") == "resting"]
        if len(working) != self.options.hosts:
            return  # what they tell is a second old
        host = self.random.choice(working)
        what = self.random.choice(["power", "cut"])
        before = len(of_kind(run, "ranks"))
        if what == "power":
            self.network.stop(host)
        else:
            self.network.cut(host)
        self.lost.append(host)
        self.done[what] += 1
        self.tell(name, run, f"{host.name} is gone for good ({what})")
        end = time.time() + self.options.limit / 2
        while not self.is_at_full_strength(run, before, resting):
            if time.time() > end or self.is_done(run):
                raise Failure(f"no spare has stepped in for {host.name}; {self.states(name)}; "
                              f"{of_kind(run, 'ranks')[before:]}")
            time.sleep(0.2)
        self.tell(name, run, "a spare works in its place")
        self.check_spares_work(name, resting)

    def is_at_full_strength(self, run, before, resting):
        """By the run's own record: `tern status` waits for the lost host, and the run goes on."""
        groups = of_kind(run, "ranks")[before:]
        if not groups or groups[-1]["world"] != self.options.hosts:
            return False
        spares = tuple(f"machine {self.network.machines.index(host)}," for host in resting)
        return any(member.startswith(spares) for member in groups[-1]["members"])

    def check_spares_work(self, name, resting):
        states = self.states(name)
        if not any(states[host.name].get("role") in ("working", "hub", "ending") or
                   states[host.name]["state"] == "ended" for host in resting):
            raise Failure(f"a spare has stepped in, and tern status does not show it: {states}")

    def states(self, name):
        """By name, as `tern status` tells them to programs."""
        code, out, err = self.ask(["status", name, "--json"])
        try:
            return {machine["name"]: machine for machine in json.loads(out)["machines"]}
        except (json.JSONDecodeError, KeyError):
            raise Failure(f"tern status: {code} {out} {err}") from None

    def run_one(self, name):
        run = self.network.root / "runs" / name
        self.launch(name, run)
        self.check_ports()
        end = time.time() + self.options.limit
        next_at = self.random.randrange(20, STEPS_BETWEEN_FAULTS)
        while not self.is_done(run):
            if time.time() > end:
                raise Failure(f"{name} has not finished: step {last_step(run)}; "
                              f"{self.ask(['status', name])[1]}")
            step = last_step(run)
            if step >= next_at and step < self.options.steps - 50:
                if len(self.lost) < self.options.spares:
                    self.lose_for_good(name, run)
                elif self.broken < self.options.faults and self.break_something(name, run):
                    next_at = last_step(run) + self.random.randrange(20, STEPS_BETWEEN_FAULTS)
            time.sleep(0.05)
        if len(self.lost) < self.options.spares:
            raise Failure(f"{name} was done before a host could be lost; give it more --steps")
        self.check(name, run)
        self.check_down(name)
        self.tell(name, run, "finished, and nothing of it is left")

    def is_done(self, run):
        return any(line["status"] == "done" for line in of_kind(run, "end"))

    def check_deaths(self):
        """SIGKILL is ours; whoever dies of another signal has a mistake in it."""
        for log in self.network.root.glob("h*/state/tern/agents/*/log.txt"):
            for line in log.read_text(errors="replace").splitlines():
                if re.search(r"killed by signal (?!9\b)", line):
                    raise Failure(f"{log.relative_to(self.network.root)}: {line}")

    def check(self, name, run):
        """Against the run that nobody disturbed."""
        self.check_deaths()
        saved = 0
        for line in json_lines(run / "ledger.jsonl"):
            if line.get("kind") == "checkpoint":
                saved = max(saved, line["step"])
            elif line.get("kind") == "resume" and line["step"] < saved:
                raise Failure(f"step {saved} was committed, and the run went on from {line['step']}")
        lines, expected = curve(run), curve(self.reference)
        if sorted(lines) != sorted(expected):
            raise Failure(f"steps are missing: {sorted(set(expected) - set(lines))[:10]}")
        for step, line in lines.items():
            if line["samples"] != BATCH:
                raise Failure(f"step {step} had {line['samples']} samples of {BATCH}")
        worst = max(abs(lines[step]["loss"] - expected[step]["loss"]) for step in expected)
        if worst > ROUNDING:
            first = min(step for step in expected
                        if abs(lines[step]["loss"] - expected[step]["loss"]) > ROUNDING)
            raise Failure(f"the losses differ from those of an undisturbed run by {worst}, first at "
                          f"step {first}: {lines[first]}, and {expected[first]['loss']} there")
        far = max(abs(a - b) for a, b in zip(weights(run), weights(self.reference)))
        if far > ROUNDING:
            raise Failure(f"the weights differ from those of an undisturbed run by {far}")
        self.must(["checkpoints", str(run), "--verify"])
        report = json.loads(self.must(["report", str(run), "--json"]))
        if report["status"] != "done" or report["step"] != self.options.steps:
            raise Failure(f"the report says {report['status']} at step {report['step']}")
        print(f"  {name}: losses within {worst:.1e}, weights within {far:.1e} of the undisturbed "
              f"run's, {report['ranks']['generations']} groups, {report['checkpoints']} checkpoints",
              flush=True)

    def check_down(self, name):
        if self.lost:
            code, out, err = self.ask(["down", name], limit_s=120)
            if code == 0 or any(host.name not in err for host in self.lost):
                raise Failure(f"tern down does not name {self.lost[0].name}: {code} {out} {err}")
        for host in self.lost:
            if host.sshd is None:
                self.network.start(host)
            else:
                self.network.heal(host)
        self.lost = []
        self.must(["down", name])
        try:
            # It sees by itself that there is nothing to follow any more.
            self.launcher.wait(timeout=30)
        except subprocess.TimeoutExpired:
            raise Failure(f"tern launch has not ended after down: "
                          f"{(self.network.root / f'{name}.log').read_text()[-2000:]}") from None
        for host in self.network.hosts:
            left = host.of_tern()
            if left:
                raise Failure(f"on {host.name} runs after down: {left}")
            ports = [address for address in host.listening() if not address.endswith(":22")]
            if ports:
                raise Failure(f"on {host.name} is listened on after down: {ports}")
            files = [str(path.relative_to(host.folder)) for path in host.folder.rglob("*")
                     if path.is_file() and not {"cache", ".cache"} & set(path.parts)]
            strange = [file for file in files if not file.startswith(("host_key", "sshd"))]
            strange += [f"/tmp/{file}" for file in host.temporary_files()
                        if host is not self.network.user]
            if strange:
                raise Failure(f"on {host.name} are files after down: {strange}")

    def prepare(self):
        root = self.network.root
        write_data(root / "data")
        (root / "run.toml").write_text(
            RUN_FILE.format(data=root / "data", steps=self.options.steps, batch=BATCH))
        spare_from = len(self.network.machines) - self.options.spares
        (root / "hosts.toml").write_text("".join(
            f'[[machine]]\naddress = "{host.name}"\nspare = {str(i >= spare_from).lower()}\n'
            for i, host in enumerate(self.network.machines)))
        self.reference = root / "runs" / "undisturbed"
        self.must(["train", str(root / "run.toml"), "--run", str(self.reference)], 600)

    def whole(self):
        self.prepare()
        self.began = time.time()
        runs = 0
        while runs == 0 or self.broken < self.options.faults:
            runs += 1
            self.run_one(f"run{runs}")
        kinds = ", ".join(f"{count} {what}" for what, count in self.done.items() if count)
        spares = f" and {self.options.spares} spares" if self.options.spares else ""
        print(f"{runs} runs on {self.options.hosts} hosts{spares}, {self.broken} faults ({kinds}), "
              f"seed {self.options.seed}: all finished, no checkpoint, step or sample lost or "
              f"repeated, nothing left after down")


def show_logs(root):
    for log in sorted(root.glob("h*/state/tern/agents/*/log.txt")):
        print(f"--- {log.relative_to(root)}\n{log.read_text()[-3000:]}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--spares", type=int, default=0)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=300, help="seconds for a run")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for the files of a failure")
    parser.add_argument("--tern", type=pathlib.Path, default=ROOT / "build/release/tern")
    options = parser.parse_args()
    options.tern = options.tern.resolve()
    libtorch = subprocess.run([ROOT / "scripts/find-libtorch"], capture_output=True, text=True,
                              check=True).stdout.strip()
    with Network(options.hosts + options.spares, libtorch) as network:
        try:
            Story(network, options).whole()
        except Failure as failure:
            show_logs(network.root)
            again = f"--hosts {options.hosts} --spares {options.spares} --seed {options.seed}"
            print(f"FAILED ({again}): {failure}", file=sys.stderr)
            if options.keep:
                shutil.copytree(network.root, options.keep, symlinks=True,
                                ignore=shutil.ignore_patterns("cache", "*.sock", "tern-ssh"))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
