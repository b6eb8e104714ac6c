#!/usr/bin/env python3
"""ResNet-50 on one NVIDIA GPU, by PyTorch eager and by `tern`, in turn: JSON lines, the last with the ratio.

Usage: bench/gpu_train.py --data DIR [--classes N] [--tern PATH] [--batch 1024] [--size 224] [--rounds 2]

Needs a Python with torch 2.11 and torchvision, and a built tern; installs nothing. DIR is any data set that
`tern data import` made, N its number of classes (1000): only the shapes of a run come from it, since both sides
compute on synthetic images that lie on the GPU. bf16 with fp32 weights, channels last, SGD with momentum
0.9, cross entropy. PyTorch: autocast, its foreach optimizer, cudnn.benchmark on, 20 steps after 5 that are
not counted, in a process of its own, so that its memory is free again. Ours: what `tern plan
imagenet-resnet50 --probe --json` measures, with train.deterministic off, as PyTorch's default is, and once more
with it on. Of each side the best round counts. Exits with 1 if ours is slower.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

WARM_STEPS = 5
STEPS = 20
HERE = pathlib.Path(__file__).resolve().parent


def torch_rate(batch, size):
    import torch
    import torchvision

    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    device = torch.device("cuda")
    network = torchvision.models.resnet50(num_classes=1000).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=3e-5)
    images = torch.randn(batch, 3, size, size, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (batch,), device=device)

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(network(images), labels)
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()

    steps(WARM_STEPS)
    began = time.perf_counter()
    steps(STEPS)
    seconds = time.perf_counter() - began
    return {
        "who": f"torch {torch.__version__} eager",
        "gpu": torch.cuda.get_device_name(),
        "images_per_s": round(STEPS * batch / seconds, 1),
        "step_ms": round(1000 * seconds / STEPS, 2),
        "peak_memory_bytes": torch.cuda.max_memory_allocated(),
    }


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(str(word) for word in command)}\n{done.stderr}")
    return done.stdout


def tern_rate(options, deterministic):
    settings = {
        "data.path": options.data,
        "data.classes": options.classes,
        "train.batch": options.batch,
        "image.size": options.size,
        "image.evaluate_resize": 0,
        "train.precision": "bf16",
        "train.device": "cuda",
        "train.deterministic": str(deterministic).lower(),
    }
    command = [options.tern, "plan", "imagenet-resnet50", "--probe", "--json"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    plan = json.loads(run(command))
    rate = plan["phases"][0]["compute_samples_per_second"]
    return {
        "who": "tern deterministic" if deterministic else "tern",
        "images_per_s": round(rate, 1),
        "step_ms": round(1000 * options.batch / rate, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--tern", type=pathlib.Path, default=HERE.parent / "build/release/tern")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--torch-only", action="store_true", help="measure PyTorch once, here")
    options = parser.parse_args()
    if options.torch_only:
        print(json.dumps(torch_rate(options.batch, options.size)), flush=True)
        return
    if options.data is None:
        parser.error("--data DIR is needed: a data set that `tern data import` made")
    best = {}
    for _ in range(options.rounds):
        shape = ["--batch", options.batch, "--size", options.size]
        lines = [json.loads(run([sys.executable, __file__, "--torch-only", *shape]).splitlines()[-1])]
        lines += [tern_rate(options, deterministic) for deterministic in (False, True)]
        for name, line in zip(("torch", "tern", "tern_deterministic"), lines):
            best[name] = max(best.get(name, 0), line["images_per_s"])
            print(json.dumps(line), flush=True)
    ratio = best["tern"] / best["torch"]
    summary = {"batch": options.batch, "size": options.size, **best, "ratio": round(ratio, 3)}
    summary["ratio_deterministic"] = round(best["tern_deterministic"] / best["torch"], 3)
    print(json.dumps(summary), flush=True)
    sys.exit(0 if ratio >= 1.0 else 1)


if __name__ == "__main__":
    main()
