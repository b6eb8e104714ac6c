import os, pathlib, signal, sys
import torch
from torch import distributed, nn

told_to_leave = []
signal.signal(signal.SIGTERM, lambda *_: told_to_leave.append(1))  # a notice
distributed.init_process_group("gloo")
rank, steps = distributed.get_rank(), int(sys.argv[1]) if len(sys.argv) > 1 else 200
saved = pathlib.Path(os.environ["TERN_CHECKPOINT_DIR"]) / "last.pt"
torch.manual_seed(0)
net = nn.parallel.DistributedDataParallel(nn.Linear(64, 1))
optimizer, step = torch.optim.SGD(net.parameters(), lr=0.01), 0
if saved.exists():  # the one before was killed, here or on another machine
    state = torch.load(saved)
    step = state["step"]
    net.module.load_state_dict(state["net"])
while step < steps:
    step += 1
    inputs = torch.randn(32, 64, generator=torch.Generator().manual_seed(1000 * step + rank))
    loss = (net(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad(), loss.backward(), optimizer.step()
    leaving = torch.tensor(float(len(told_to_leave)))
    distributed.all_reduce(leaving)  # so that all leave after the same step
    if rank == 0 and (step % 10 == 0 or step == steps or leaving):
        torch.save({"step": step, "net": net.module.state_dict()}, f"{saved}.tmp")
        os.replace(f"{saved}.tmp", saved)  # whole, or not there
        print(f"step {step} loss {loss:.4f}", flush=True)
    if leaving:
        sys.exit(75)  # saved; start me again
