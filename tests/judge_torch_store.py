"""PyTorch's own client at the store where its ranks meet: every request it knows, from two ranks."""

import datetime
import os

from torch import distributed

distributed.init_process_group("gloo")
store = distributed.distributed_c10d._get_default_store()
rank = distributed.get_rank()


def meet(name):
    store.add(f"meet/{name}", 1)
    store.set(f"met/{name}/{rank}", "")
    store.wait([f"met/{name}/0", f"met/{name}/1"])
    assert store.get(f"meet/{name}") == b"2"


meet("first")
large = os.urandom(5_000_000)
if rank == 0:
    assert store.compare_set("taken", "", "first") == b"first"
    assert store.compare_set("taken", "", "second") == b"first"
    assert store.compare_set("taken", "first", "second") == b"second"
    assert store.compare_set("nothing", "wrong", "new") == b"wrong"
    assert not store.check(["nothing"]) and store.check(["taken"])
    assert store.add("number", -7) == -7 and store.add("number", 9) == 2
    assert store.get("number") == b"2"
    before = store.num_keys()
    store.set("short-lived", b"\0\xff")
    assert store.num_keys() == before + 1 and store.get("short-lived") == b"\0\xff"
    assert store.delete_key("short-lived") and not store.delete_key("short-lived")
    assert store.num_keys() == before
    store.append("list", b"one ")
    store.append("list", b"two")
    assert store.get("list") == b"one two"
    store.multi_set(["a", "b"], ["", "2"])
    assert store.multi_get(["b", "a"]) == [b"2", b""]
    store.set("large", large)
    assert store.get("large") == large
    try:
        store.wait(["never"], datetime.timedelta(milliseconds=50))
        raise SystemExit("a wait for nothing ended")
    except distributed.DistStoreError:
        pass
    assert any(key.endswith("taken") for key in store.list_keys())
    try:
        store.add("list", 1)
        raise SystemExit("a text was added to")
    except RuntimeError:
        print("text refused", flush=True)

# The connection of rank 0 was closed for the last one: the other rank's was not, and a new one is
# let in.
if rank == 0:
    store = distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]),
                                 is_master=False)
    for _ in range(2):
        assert store.queue_pop("work") == b"a piece"
    assert store.queue_len("work") == 1
    store.set("popped", "")
    store.wait(["seen"])  # if the store is rank 0's own, it is there until the other has done
    print("store is right", flush=True)
else:
    own = distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]),
                               is_master=False)
    for _ in range(3):
        own.queue_push("work", b"a piece")
    own.wait(["popped"])
    assert own.queue_len("none") == 0
    try:
        own.queue_pop("none", block=False)
        raise SystemExit("a piece from an empty queue")
    except distributed.QueueEmptyError:
        pass
    own.set("seen", "")
