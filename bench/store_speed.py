#!/usr/bin/env python3
"""Copies to and from an S3 server by `tern store cp` and by s5cmd in turn, and prints both sides with their ratio.

Usage: bench/store_speed.py [TASK...] [--rounds N] [--tiny DIR] [--steps N] [--servers DIR] [--work DIR]

TASK is one or more of (all of them; train only with --tiny)
  small       1,000 objects of 110 KB, down and up
  shards      8 objects of 64 MB, down: tern asks for ranges of 16 MB, s5cmd for ranges of 50 MB
  checkpoint  one object of 500 MB, up, in parts
  memory      the most memory of `tern store cp` for objects of 64 MB, 500 MB and 2 GB, both ways
  train       how long a step of tiny-imagenet-resnet18 waits for data in a bucket 20 ms away

The server is versitygw on loopback, s5cmd has its default options; both are of scripts/fetch-servers. All files
are in --work (/dev/shm: memory, so that no disk is measured). Sides take turns, N rounds (7), and each side's best
counts, of seconds of the whole process and of its CPU time, user and system: what else a machine does only adds to
them. --tiny is a folder in Tiny-ImageNet's layout (train, val, wnids.txt; some of the classes will do), of which N
steps (40) are trained. Exits with 1 if a limit is missed. Run it on a machine
that does nothing else.
"""

import argparse
import asyncio
import filecmp
import http.client
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
TASKS = ["small", "shards", "checkpoint", "memory", "train"]
KEYS = {"access": "tern-bench", "secret": "not-a-secret-of-anybody"}

THROUGHPUT_MIN = 1.0  # ours by s5cmd's
CPU_MAX, CPU_AIM = 1.0, 0.7  # ours by s5cmd's
MEMORY_SLACK = 64 << 20  # beside part size times parts in flight: the program and its connections
WAIT_MAX = 0.02  # of a step's time
DELAY_S = 0.020

SMALL, SMALL_BYTES = 1000, 110_000
SHARDS, SHARD_BYTES = 8, 64 << 20
CHECKPOINT_BYTES = 500_000_000
MEMORY_SIZES = {"64 MB": 64 << 20, "500 MB": 500_000_000, "2 GB": 2 << 30}
MEMORY_OPTIONS = [(16, 16), (8, 4)]  # MiB a part, parts in flight; the first are the defaults


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def has_attributes(folder):
    try:
        os.setxattr(folder, "user.tern", b"1")
        return True
    except OSError:
        return False


class Server:
    """versitygw on loopback, with a bucket named bench; its objects are files in self.bucket."""

    def __init__(self, program, folder):
        self.bucket = folder / "data/bench"
        self.bucket.parent.mkdir(parents=True)
        self.port = free_port()
        command = ["setpriv", "--pdeathsig", "KILL", "--", program]
        command += ["--port", f"127.0.0.1:{self.port}", "--keep-alive", "--quiet", "posix"]
        if not has_attributes(folder):
            (folder / "meta").mkdir()
            command += ["--sidecar", folder / "meta"]
        environment = os.environ | {
            "ROOT_ACCESS_KEY": KEYS["access"], "ROOT_SECRET_KEY": KEYS["secret"]}
        self.process = subprocess.Popen([*command, folder / "data"], env=environment)
        for _ in range(200):
            if self.process.poll() is None and round_trip_s(self.port) is not None:
                return
            time.sleep(0.05)
        sys.exit("versitygw did not come up; see its message above")

    def close(self):
        self.process.kill()
        self.process.wait()


def round_trip_s(port):
    """Of a request that the server refuses at once; None if nobody answers."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.connect()
        began = time.perf_counter()
        connection.request("GET", "/")
        connection.getresponse().read()
        return time.perf_counter() - began
    except OSError:
        return None
    finally:
        connection.close()


class DelayProxy:
    """Passes bytes on to a port, those of requests DELAY_S later. One that fits into a packet, as a GET does,
    waits once. Serves on a thread of its own until this process ends."""

    def __init__(self, server_port):
        self.port = free_port()
        self.server_port = server_port
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True).start()
        ready.wait()

    async def serve(self, ready):
        server = await asyncio.start_server(self.visit, "127.0.0.1", self.port)
        ready.set()
        await server.serve_forever()

    async def visit(self, reader, writer):
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        await asyncio.gather(
            self.pump(reader, to_writer, DELAY_S), self.pump(to_reader, writer, 0))

    async def pump(self, reader, writer, delay_s):
        try:
            while data := await reader.read(1 << 16):
                await asyncio.sleep(delay_s)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # the other side has gone; so do we
        finally:
            writer.close()


def make_file(path, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        while size > 0:
            block = os.urandom(min(size, 1 << 20))
            file.write(block)
            size -= len(block)


def expect_equal(folder, copy):
    """Every file of `folder` is in `copy`, to the byte."""
    names = [path.name for path in folder.iterdir()]
    _, different, missing = filecmp.cmpfiles(folder, copy, names, shallow=False)
    if different or missing:
        sys.exit(f"{copy} is no copy of {folder}: {(different + missing)[0]}")


class Bench:
    def __init__(self, options, work):
        self.options = options
        self.work = work
        self.server = Server(options.servers / "bin/versitygw", work / "server")
        self.s5cmd = options.servers / "bin/s5cmd"
        self.kept = True
        self.ratios = []
        self.tern("store", "mb", "s3://bench")

    def run(self, command, port=None):
        """(seconds, CPU seconds, peak memory in bytes, output) of a child."""
        url = f"http://127.0.0.1:{port or self.server.port}"
        environment = os.environ | {
            "AWS_ACCESS_KEY_ID": KEYS["access"], "AWS_SECRET_ACCESS_KEY": KEYS["secret"],
            "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": url, "S3_ENDPOINT_URL": url}
        words = [str(word) for word in command]
        with tempfile.TemporaryFile(dir=self.work) as out:
            began = time.perf_counter()
            child = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=environment)
            _, status, usage = os.wait4(child.pid, 0)
            seconds = time.perf_counter() - began
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            said = out.read().decode(errors="replace")
        if child.returncode != 0:
            sys.exit(f"failed: {' '.join(words)}\n{said}")
        return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, said

    def tern(self, *words, port=None):
        return self.run([self.options.tern, *words], port)

    def compare(self, task, size, commands, clean, check):
        """Both sides in turn; `check` is called with each side's name once, after its first copy."""
        figures = {who: [] for who in commands}
        for number in range(self.options.rounds):
            sides = list(commands) if number % 2 == 0 else list(reversed(commands))
            for who in sides:
                clean(who)
                figures[who].append(self.run(commands[who])[:2])
                if number == 0:
                    check(who)
        best = {}
        for who, rounds in figures.items():
            clean(who)
            best[who] = [min(column) for column in zip(*rounds)]
            seconds, cpu = best[who]
            spread = " ".join(f"{each:.2f}" for each, _ in rounds)
            print(f"{task:16}{who:8}{seconds:9.3f} s{size / seconds / 1e6:9,.0f} MB/s{cpu:9.3f} CPU s   ({spread})",
                  flush=True)
        throughput = best["s5cmd"][0] / best["tern"][0]
        cpu = best["tern"][1] / best["s5cmd"][1]
        self.ratios.append((task, throughput, cpu))
        self.kept = self.kept and throughput >= THROUGHPUT_MIN and cpu <= CPU_MAX

    def download(self, task, prefix, size):
        def folder(who):
            return self.work / f"down-{who}"

        self.compare(
            task, size,
            {"tern": [self.options.tern, "store", "cp", "--recursive", f"s3://bench/{prefix}", folder("tern")],
             "s5cmd": [self.s5cmd, "cp", f"s3://bench/{prefix}/*", folder("s5cmd")]},
            clean=lambda who: shutil.rmtree(folder(who), ignore_errors=True),
            check=lambda who: expect_equal(self.server.bucket / prefix, folder(who)))

    def upload(self, task, source, size):
        def prefix(who):
            return f"up-{who}"

        self.compare(
            task, size,
            {"tern": [self.options.tern, "store", "cp", "--recursive", source, f"s3://bench/{prefix('tern')}"],
             "s5cmd": [self.s5cmd, "cp", f"{source}/", f"s3://bench/{prefix('s5cmd')}/"]},
            clean=lambda who: shutil.rmtree(self.server.bucket / prefix(who), ignore_errors=True),
            check=lambda who: expect_equal(source, self.server.bucket / prefix(who)))

    def make_objects(self, name, count, size):
        """Files in a folder, and the same in the bucket."""
        for number in range(count):
            make_file(self.work / name / f"{number:06}", size)
        self.tern("store", "cp", "--recursive", self.work / name, f"s3://bench/{name}")

    def small(self):
        self.make_objects("small", SMALL, SMALL_BYTES)
        self.download("small, down", "small", SMALL * SMALL_BYTES)
        self.upload("small, up", self.work / "small", SMALL * SMALL_BYTES)

    def shards(self):
        self.make_objects("shards", SHARDS, SHARD_BYTES)
        self.download("shards, down", "shards", SHARDS * SHARD_BYTES)

    def checkpoint(self):
        make_file(self.work / "checkpoint/one", CHECKPOINT_BYTES)
        self.upload("checkpoint, up", self.work / "checkpoint", CHECKPOINT_BYTES)

    def memory(self):
        for name, size in MEMORY_SIZES.items():
            make_file(self.work / "large", size)
            for part_mib, in_flight in MEMORY_OPTIONS:
                flags = ["--force", "--part-size", f"{part_mib}M", "--in-flight", in_flight]
                limit = (part_mib << 20) * in_flight + MEMORY_SLACK
                up = self.tern("store", "cp", *flags, self.work / "large", "s3://bench/large")[2]
                down = self.tern("store", "cp", *flags, "s3://bench/large", self.work / "large")[2]
                missed = max(up, down) > limit
                self.kept = self.kept and not missed
                print(f"memory          {name:>6}, {in_flight:2} parts of {part_mib:2} MiB{up / 1e6:7.0f} MB up"
                      f"{down / 1e6:7.0f} MB down (at most {limit / 1e6:.0f}){'   MISSED' if missed else ''}",
                      flush=True)
        (self.work / "large").unlink()
        (self.server.bucket / "large").unlink()

    def train(self):
        tiny = self.options.tiny
        self.tern("data", "import", tiny, self.work / "tiny", "--pack", "orig")
        self.tern("store", "cp", "--recursive", self.work / "tiny", "s3://bench/tiny")
        proxy = DelayProxy(self.server.port)
        near, far = (statistics.median(round_trip_s(port) for _ in range(5)) for port in (self.server.port, proxy.port))
        print(f"train           a request takes {1e3 * near:.1f} ms, and {1e3 * far:.1f} through the delay", flush=True)
        classes = len((tiny / "wnids.txt").read_text().split())
        settings = ["data.path=s3://bench/tiny", f"data.classes={classes}", "train.evaluate_every=0",
                    f"train.steps={self.options.steps}"]
        flags = [word for setting in settings for word in ("--set", setting)]
        folder = self.work / "run"
        self.tern("train", "tiny-imagenet-resnet18", "--fresh", "--run", folder, *flags, port=proxy.port)
        report = json.loads(self.tern("report", folder, "--json")[3])
        seconds = report["seconds"]
        wait = sum(seconds[span] for span in ("fetch", "decode", "augment", "queue"))
        whole = wait + seconds["copy"] + seconds["compute"]
        missed = wait > WAIT_MAX * whole
        self.kept = self.kept and not missed
        steps = report["step"]
        print(f"train           {steps} steps of {whole / steps:.2f} s, of which {1e3 * wait / steps:.1f} ms wait for data: "
              f"{100 * wait / whole:.2f} % (at most {100 * WAIT_MAX:.0f}){'   MISSED' if missed else ''}")

    def verdict(self):
        if self.ratios:
            print(f"\n{'task':16}{'throughput':>11}{'must':>6}{'CPU':>8}{'must':>6}{'aim':>6}")
        for task, throughput, cpu in self.ratios:
            missed = throughput < THROUGHPUT_MIN or cpu > CPU_MAX
            print(f"{task:16}{throughput:11.2f}{THROUGHPUT_MIN:6}{cpu:8.2f}{CPU_MAX:6}{CPU_AIM:6}"
                  f"{'   MISSED' if missed else ''}")
        return self.kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tiny", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=40)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    parser.add_argument("--servers", type=pathlib.Path, default=cache / "tern/servers-1")
    parser.add_argument("--tern", default=HERE.parent / "build/release/tern")
    parser.add_argument("--work", type=pathlib.Path, default="/dev/shm")
    options = parser.parse_args()
    unknown = set(options.tasks) - set(TASKS)
    if unknown:
        parser.error(f"there is no task {unknown.pop()}; the tasks are {', '.join(TASKS)}")
    if "train" in options.tasks and options.tiny is None:
        parser.error("train needs --tiny DIR")
    tasks = options.tasks or [task for task in TASKS if task != "train" or options.tiny]
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        bench = Bench(options, pathlib.Path(work))
        try:
            for task in (task for task in TASKS if task in tasks):
                getattr(bench, task)()
            kept = bench.verdict()
        finally:
            bench.server.close()
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
