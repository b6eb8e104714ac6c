#!/usr/bin/env python3
"""How soon does a PyTorch script go on when one of its ranks is killed? Under Tern and torchrun.

    cmake --build build/release --target tern
    bench/program_recovery.py [--ranks 2] [--kills 20] [--python PYTHON] [--skip-torchrun] [--json FILE]

The same script (DistributedDataParallel over Gloo, a checkpoint each 10 steps) runs under `tern
program`, which is what `tern launch ... -- PROGRAM` runs on each machine, and under torchrun of the
same PyTorch. A random rank gets SIGKILL; the time to the first step of the next attempt is taken,
and what that attempt took from exec to the end of its imports is subtracted: nobody can save that.
The script imports torch._dynamo by name, because DistributedDataParallel would import its 900 modules when
it is first made.
PYTHON has torch 2.11 (scripts/fetch-peers makes one).
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT_S = 0.5
ROOT = pathlib.Path(__file__).resolve().parent.parent

# Each line of its log: pid, seconds from exec to the end of the imports, step, time.
SCRIPT = '''
import os, pathlib, sys, time
import torch, torch._dynamo
from torch import distributed, nn
imported = time.time()
with open("/proc/self/stat") as stat, open("/proc/uptime") as uptime:
    started = int(stat.read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    import_s = float(uptime.read().split()[0]) - started - (time.time() - imported)
torch.set_num_threads(1)
distributed.init_process_group("gloo")
rank = distributed.get_rank()
saved = pathlib.Path(os.environ["TERN_CHECKPOINT_DIR"]) / "last.pt"
net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)))
optimizer, step = torch.optim.SGD(net.parameters(), lr=0.01), 0
if saved.exists():
    state = torch.load(saved)
    step = state["step"]
    net.module.load_state_dict(state["net"])
x, y = torch.randn(64, 256), torch.randint(10, (64,))
log = open(sys.argv[1] + f"/{rank}", "a", buffering=1)
while True:
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    step += 1
    log.write(f"{os.getpid()} {import_s:.3f} {step} {time.time():.3f}\\n")
    if rank == 0 and step % 10 == 0:
        torch.save({"step": step, "net": net.module.state_dict()}, f"{saved}.tmp")
        os.replace(f"{saved}.tmp", saved)
    time.sleep(0.01)
'''


def wait_for(what, limit_s, condition):
    end = time.time() + limit_s
    while time.time() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise TimeoutError(what)


class Run:
    """A script under a launcher, its steps read from what it logs."""

    def __init__(self, command, folder, environment):
        self.folder = pathlib.Path(folder)
        self.steps = self.folder / "steps"
        self.steps.mkdir()
        (self.folder / "train.py").write_text(SCRIPT)
        self.log = open(self.folder / "log.txt", "w")
        self.process = subprocess.Popen(
            command + [str(self.folder / "train.py"), str(self.steps)],
            env={**os.environ, **environment}, stdout=self.log, stderr=self.log)

    def newest(self):
        """The last whole line of each rank, by rank."""
        lines = {}
        for path in self.steps.iterdir():
            with open(path, "rb") as file:
                file.seek(max(0, path.stat().st_size - 200))
                whole = file.read().decode().splitlines(keepends=True)
            whole = [line.split() for line in whole[-2:] if line.endswith("\n")]
            if whole and len(whole[-1]) == 4:
                lines[int(path.name)] = whole[-1]
        return lines

    def first_steps(self, pids):
        """Of each rank the first line of a process that is not in `pids`; all ranks or nothing."""
        found = {}
        for path in self.steps.iterdir():
            for line in path.read_text().splitlines():
                words = line.split()
                if len(words) == 4 and int(words[0]) not in pids:
                    found[path.name] = words
                    break
        return found

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def measure(name, command, args, environment=None):
    """(whole, without imports, imports) of each kill that was survived."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = pathlib.Path(folder) / "checkpoints"
        checkpoints.mkdir()
        command = [word.replace("FOLDER", folder) for word in command]
        run = Run(command, folder, {"TERN_CHECKPOINT_DIR": str(checkpoints), **(environment or {})})
        try:
            wait_for("the first steps", 120, lambda: len(run.newest()) == args.ranks)
            for _ in range(args.kills):
                # What it does must count as progress: a checkpoint that is kept.
                begun = {rank: int(line[2]) for rank, line in run.newest().items()}
                wait_for("some steps", 60, lambda: all(
                    int(line[2]) > begun[rank] + 100 for rank, line in run.newest().items()))
                pids = {int(line[0]) for line in run.newest().values()}
                before = {int(line.split()[0]) for path in run.steps.iterdir()
                          for line in path.read_text().splitlines() if len(line.split()) == 4}
                killed = time.time()
                os.kill(random.choice(sorted(pids)), signal.SIGKILL)
                first = wait_for("a step of the next attempt", 60,
                                 lambda: (lambda f: f if len(f) == args.ranks else None)(
                                     run.first_steps(before)))
                whole = min(float(line[3]) for line in first.values()) - killed
                imports = max(float(line[1]) for line in first.values())
                results.append((whole, whole - imports, imports))
        except TimeoutError as late:
            print(f"{name}: waited in vain for {late}", file=sys.stderr)
            print("".join(open(run.folder / "log.txt").readlines()[-15:]), file=sys.stderr)
        finally:
            run.end()
    return results


def table(name, results, kills):
    print(f"{name:<10} {len(results)} of {kills} survived")
    for label, place in (("kill to step", 0), ("without imports", 1), ("imports", 2)):
        times = sorted(result[place] for result in results)
        if times:
            print(f"{'':<10} {label:<16} median {statistics.median(times):6.3f} s   "
                  f"worst {times[-1]:6.3f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--python", default=os.path.expanduser("~/.cache/tern/peers-1/bin/python"))
    parser.add_argument("--tern", default=str(ROOT / "build/release/tern"))
    parser.add_argument("--skip-torchrun", action="store_true")
    parser.add_argument("--json", default="", help="also write the numbers to this file")
    args = parser.parse_args()
    if not shutil.which(args.python):
        sys.exit(f"{args.python} is not there; --python names one that has torch 2.11")
    numbers = {"tern": measure("tern", [args.tern, "program", "--ranks", str(args.ranks), "--run",
                                        "FOLDER/run", "--", args.python], args)}
    table("tern", numbers["tern"], args.kills)
    if not args.skip_torchrun:
        numbers["torchrun"] = measure(
            "torchrun", [args.python, "-m", "torch.distributed.run", "--standalone",
                         "--nproc-per-node", str(args.ranks), "--max-restarts", str(args.kills + 1)],
            args)
        table("torchrun", numbers["torchrun"], args.kills)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(numbers))
    ours = numbers["tern"]
    if len(ours) < args.kills:
        sys.exit(f"only {len(ours)} of {args.kills} kills were survived")
    within = sum(result[1] <= LIMIT_S for result in ours)
    print(f"within import time + {LIMIT_S} s: {within} of {args.kills}")
    if within < args.kills:
        sys.exit(f"longer than import time + {LIMIT_S} s")


if __name__ == "__main__":
    main()
