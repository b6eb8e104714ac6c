import os, signal, sys, torch
from torch import distributed, nn

told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))  # a notice: this machine will go
distributed.init_process_group("gloo")
rank, steps = distributed.get_rank(), int(sys.argv[1])
torch.manual_seed(0)
net = nn.parallel.DistributedDataParallel(nn.Linear(64, 1))
optimizer, step, leave = torch.optim.SGD(net.parameters(), lr=0.01), 0, False
saved = os.environ["TERN_CHECKPOINT_DIR"] + "/last.pt"
if os.path.exists(saved):  # the one before was killed, here or on another machine
    step, weights = torch.load(saved)
    net.load_state_dict(weights)
while step < steps and not leave:
    step += 1
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(1000 * step + rank))
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad(), loss.backward(), optimizer.step()
    leave = torch.tensor(float(len(told)))
    distributed.all_reduce(leave)  # so that all leave after the same step
    if rank == 0 and (step % 10 == 0 or step == steps or leave):
        torch.save((step, net.state_dict()), saved + ".tmp")
        os.replace(saved + ".tmp", saved)  # whole, or not there
        print(f"step {step} loss {loss:.4f}", flush=True)
distributed.destroy_process_group()
sys.exit(75 if leave else 0)  # 75: saved; start me again
