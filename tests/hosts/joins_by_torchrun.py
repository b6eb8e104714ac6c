#!/usr/bin/env python3
"""Two hosts train one run that something else launches: only torchrun's variables are set.

    tests/hosts/joins_by_torchrun.py

Hosts are network namespaces. MASTER_ADDR is a name, and on the host that has it that name stands for
127.0.1.1, as in Debian's own /etc/hosts. Both must find each other all the same, listen on their own
address alone, and take each step once, together. Needs root.
"""

import pathlib
import shutil
import subprocess
import sys
import time

from network import Network
from survives_faults import ROOT, RUN_FILE, json_lines, last_step, of_kind, write_data

STEPS = 400
PORT = 20_517


def start(network, tern, host, rank, run):
    variables = {"RANK": rank, "LOCAL_RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "leader",
                 "MASTER_PORT": PORT, "TERN_LIBTORCH": network.libtorch,
                 "XDG_CACHE_HOME": host.folder / "cache", "XDG_STATE_HOME": host.folder / "state"}
    log = open(host.folder / "log.txt", "w")
    return subprocess.Popen(
        ["ip", "netns", "exec", host.namespace, "env"] +
        [f"{name}={value}" for name, value in variables.items()] +
        [str(tern), "train", str(network.root / "run.toml"), "--run", str(run)],
        stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def name_the_leader(network):
    """What `ip netns exec` shows as /etc/hosts in each of them."""
    folders = []
    for host in network.machines:
        folder = pathlib.Path("/etc/netns", host.namespace)
        folder.mkdir(parents=True)
        folders.append(folder)
        leader = network.machines[0]
        address = "127.0.1.1" if host is leader else leader.address
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{address} leader\n")
    return folders


def check(network, processes, run):
    end = time.time() + 60
    while last_step(run) < 10:
        if time.time() > end or any(process.poll() is not None for process in processes):
            return "it does not step"
        time.sleep(0.02)
    for host in network.machines:
        ports = [port for port in host.listening() if not port.endswith(":22")]
        if not ports or any(not port.startswith(f"{host.address}:") for port in ports):
            return f"on {host.name} is listened on {ports}"
    codes = [process.wait(timeout=120) for process in processes]
    if codes != [0, 0]:
        return f"it ended with {codes}"
    steps = [line["step"] for line in json_lines(run / "metrics.jsonl") if "loss" in line]
    worlds = [group["world"] for group in of_kind(run, "ranks")]
    if steps != list(range(1, STEPS + 1)) or worlds != [2]:
        return f"{len(steps)} steps of {STEPS} by groups of {worlds}"
    return None


def main():
    tern = (ROOT / "build/release/tern").resolve()
    libtorch = subprocess.run([ROOT / "scripts/find-libtorch"], capture_output=True, text=True,
                              check=True).stdout.strip()
    with Network(2, libtorch) as network:
        write_data(network.root / "data")
        (network.root / "run.toml").write_text(
            RUN_FILE.format(data=network.root / "data", steps=STEPS, batch=24))
        run = network.root / "runs" / "joined"
        folders, processes = name_the_leader(network), []
        try:
            for rank, host in enumerate(network.machines):
                processes.append(start(network, tern, host, rank, run))
            problem = check(network, processes, run)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
            for folder in folders:
                shutil.rmtree(folder)
        if problem:
            for host in network.machines:
                print(f"--- {host.name}\n{(host.folder / 'log.txt').read_text()[-3000:]}",
                      file=sys.stderr)
            print(f"FAILED: {problem}", file=sys.stderr)
            return 1
    print("two hosts found each other by torchrun's variables and took each step together")
    return 0


if __name__ == "__main__":
    sys.exit(main())
