"""A program of several ranks that meet as PyTorch's do, without PyTorch: it steps, saves and resumes.

    any_program.py STEPS LOG_FOLDER

Each rank appends "ATTEMPT RANK STEP PID" to LOG_FOLDER/RANK at every step.
"""

import json
import os
import pathlib
import signal
import socket
import sys
import time

leaving = []
signal.signal(signal.SIGTERM, lambda *_: leaving.append(1))
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
saved = pathlib.Path(os.environ["TERN_CHECKPOINT_DIR"]) / "last.json"
steps = int(sys.argv[1])


def connect():
    if rank == 0:
        with socket.create_server(address) as server:
            return [server.accept()[0] for _ in range(world - 1)]
    for _ in range(3000):
        try:
            return [socket.create_connection(address)]
        except ConnectionRefusedError:
            time.sleep(0.01)
    sys.exit("rank 0 does not listen")


def receive(peer):
    byte = peer.recv(1)
    if not byte:
        sys.exit("a rank is gone")
    return byte[0]


def largest(value):
    """Of all ranks, told to all."""
    if rank == 0:
        value = max([value] + [receive(peer) for peer in peers])
    for peer in peers:
        peer.sendall(bytes([value]))
    return value if rank == 0 else receive(peers[0])


step = json.loads(saved.read_text())["step"] if saved.exists() else 0
print(f"rank {rank} begins at step {step}", flush=True)
peers = connect()
with open(pathlib.Path(sys.argv[2]) / str(rank), "a", buffering=1) as log:
    while step < steps:
        leave = largest(len(leaving) > 0)
        step += 1
        log.write(f"{os.environ['TERN_ATTEMPT']} {rank} {step} {os.getpid()}\n")
        if rank == 0 and (step % 5 == 0 or step == steps or leave):
            part = saved.with_suffix(".tmp")
            part.write_text(json.dumps({"step": step}))
            part.replace(saved)
        if leave:
            sys.exit(75)
        time.sleep(0.01)
