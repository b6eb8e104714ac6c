#!/usr/bin/env python3
"""How soon is a notice seen? Prints the latency of each source, and fails above 1.1 s (p99).

    cmake --build build/release --target benches && bench/notice_latency.py

AWS is the EC2 metadata mock (scripts/fetch-servers), Google and Azure are tests/strict_metadata.py,
and the file is on this machine's disk. Every watcher is the one that training runs use; many of them
watch at once, and the time is from the moment at which the service knows to the moment at which the
notice is on the board.
"""

import argparse
import datetime
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_S = 1.1


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port):
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"nothing answers on port {port}")


class Server:
    """A server that ends with the block."""

    def __init__(self, command, port):
        self.port = port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def __enter__(self):
        wait_for_port(self.port)
        return f"http://127.0.0.1:{self.port}"

    def __exit__(self, *args):
        self.process.kill()
        self.process.wait()


def servers_folder():
    found = subprocess.run([ROOT / "scripts/fetch-servers", "--find"], text=True,
                           capture_output=True, check=False)
    return pathlib.Path(found.stdout.strip()) if found.returncode == 0 else None


def latencies(source, where, watchers, act):
    """`act` makes the event happen and returns when it did, in seconds since 1970."""
    probe = subprocess.Popen([ROOT / "build/release/bench/notice_probe", source, where,
                              str(watchers)], stdout=subprocess.PIPE, text=True)
    assert probe.stdout.readline() == "ready\n", "notice_probe did not begin"
    happened = act()
    seen = [int(line) / 1000 for line in probe.stdout]
    if probe.wait() != 0 or len(seen) != watchers:
        sys.exit(f"{source}: only {len(seen)} of {watchers} watchers saw the notice")
    return sorted(each - happened for each in seen)


def post(url):
    before = time.time()
    urllib.request.urlopen(urllib.request.Request(url, method="POST")).close()
    return before


def measure_aws(watchers):
    folder = servers_folder()
    if folder is None:
        return None
    port = free_port()
    # The mock takes whole seconds: late enough for all watchers to have begun.
    at = int(time.time()) + 9
    text = datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    with Server([folder / "bin/ec2-metadata-mock", "--imdsv2", "--hostname", "127.0.0.1", "--port",
                 str(port), "spot", "--mock-trigger-time", text, "--rebalance-delay-sec",
                 "1000000"], port) as url:
        return latencies("aws", url, watchers, lambda: at)


def measure_strict(source, order, watchers):
    port = free_port()
    with Server([sys.executable, ROOT / "tests/strict_metadata.py", "--port", str(port)],
                port) as url:
        return latencies(source, url, watchers, lambda: post(f"{url}/_strict/{order}"))


def measure_file(watchers):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "preempt.txt")

        def touch():
            before = time.time()
            open(path, "w").close()
            return before

        return latencies("file", path, watchers, touch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--watchers", type=int, default=100)
    count = parser.parse_args().watchers
    azure = "azure?id=A-1&type=Preempt&resource=train_0&in=30"
    rows = {"AWS, EC2 metadata mock": measure_aws(count),
            "Google, strict server": measure_strict("gcp", "gcp?key=preempted&value=TRUE", count),
            "Azure, strict server": measure_strict("azure", azure, count),
            "file": measure_file(count)}
    print(f"{'source':<24} {'median':>8} {'p99':>8} {'worst':>8}   of {count} watchers")
    is_kept = True
    for name, seen in rows.items():
        if seen is None:
            print(f"{name:<24} not measured: no servers (scripts/fetch-servers)")
            continue
        p99 = seen[min(len(seen) - 1, int(len(seen) * 0.99))]
        is_kept = is_kept and p99 <= LIMIT_S
        print(f"{name:<24} {seen[len(seen) // 2]:>6.3f} s {p99:>6.3f} s {seen[-1]:>6.3f} s")
    print(f"\nat most {LIMIT_S} s (p99) is allowed: {'kept' if is_kept else 'NOT KEPT'}")
    sys.exit(0 if is_kept else 1)


if __name__ == "__main__":
    main()
