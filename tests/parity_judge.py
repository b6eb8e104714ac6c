"""PyTorch and torchvision judge what our networks and our learner compute.

Usage: parity_judge.py network FILE...    what one forward and backward pass gave
       parity_judge.py steps FOLDER...    what a number of training steps gave

Prints JSON: for each file or folder, by its name, how far ours are from theirs. Each figure is the worst
over the tensors of its kind, as a part of the tensor's norm. Exit 77: there is no PyTorch here that this
Python can import. parity_test.cc writes the files; the environment is its work too.
"""

import importlib.machinery
import json
import os
import pathlib
import statistics
import sys


def find_torch():
    """Ends the program where there is no Python half to the LibTorch on the path."""
    for folder in sys.path:
        package = pathlib.Path(folder) / "torch"
        if any((package / f"_C{suffix}").exists() for suffix in importlib.machinery.EXTENSION_SUFFIXES):
            break
    else:
        print(f"no PyTorch for Python {sys.version_info.major}.{sys.version_info.minor} on the path", file=sys.stderr)
        sys.exit(77)
    # Only what is called is bound: libraries of CUDA may be missing, and no GPU is used.
    sys.setdlopenflags(os.RTLD_LAZY)


find_torch()
import safetensors  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as functional  # noqa: E402
import torchvision.models  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch import nn  # noqa: E402


LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


class SmallCnn(nn.Module):
    def __init__(self, width, channels, height, image_width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.fc1 = nn.Linear(2 * width * (height // 4) * (image_width // 4), 4 * width)
        self.fc2 = nn.Linear(4 * width, classes)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.fc2(functional.relu(self.fc1(torch.flatten(x, 1))))


class CifarTutorial(nn.Module):
    """https://pytorch.org/tutorials/beginner/blitz/cifar10_tutorial.html, for 32 px"""

    def __init__(self, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = self.pool(functional.relu(self.conv1(x)))
        x = self.pool(functional.relu(self.conv2(x)))
        x = functional.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc3(functional.relu(self.fc2(x)))


def build(case, shape):
    """The network of a case, with the first weights that follow from its seed."""
    _, channels, height, width = shape
    torch.manual_seed(case["seed"])
    if case["model"] == "small-cnn":
        return SmallCnn(case["width"], channels, height, width, case["classes"])
    if case["model"] == "cifar-tutorial":
        return CifarTutorial(channels, case["classes"])
    model = getattr(torchvision.models, case["model"])(
        num_classes=case["classes"], zero_init_residual=case["zero_init"])
    if case["stem"] == "small":
        model.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        model.maxpool = nn.Identity()
    elif channels != 3:
        model.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
    return model


def read(path):
    """The tensors of a file, and what it says of its case."""
    with safetensors.safe_open(path, framework="pt") as file:
        case = json.loads(file.metadata()["case"])
    return load_file(path), case


def distance(ours, theirs):
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{ours.dtype} {tuple(ours.shape)} is not {theirs.dtype} {tuple(theirs.shape)}"
    difference = (ours.double() - theirs.double()).norm().item()
    norm = theirs.double().norm().item()
    return difference / norm if norm > 0 else difference


def worst(ours, theirs):
    """Of tensors by name."""
    if set(ours) != set(theirs):
        return f"names that only one side has: {sorted(set(ours) ^ set(theirs))}"
    distances = [(name, distance(ours[name], theirs[name])) for name in sorted(theirs)]
    for name, figure in distances:
        if isinstance(figure, str):
            return f"{name}: {figure}"
    return max((figure for _, figure in distances), default=0.0)


def part(tensors, prefix):
    return {name[len(prefix):]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def one_pass(case, images, labels, begin, dtype, layout):
    """What a pass gives in a number type and layout: of each kind the tensors by name."""
    model = build(case, images.shape).to(dtype)
    model.load_state_dict(begin, strict=True)
    model.to(memory_format=layout)
    logits = model(images.to(dtype).to(memory_format=layout))
    functional.cross_entropy(logits, labels).backward()
    return {"logits": {"": logits.detach()},
            "gradients": {name: parameter.grad for name, parameter in model.named_parameters()},
            "buffers": dict(model.named_buffers())}


def rounding(ours, theirs, exact):
    """How far ours are from what fp64 gives, by how far theirs are: of each side and kind the median over the
    tensors, and of the kinds the worst."""
    def error(side, kind):
        return statistics.median(distance(side[kind][name].double(), exact[kind][name].double()) for name in exact[kind])
    return max(error(ours, kind) / error(theirs, kind) for kind in exact)


def judge_network(path):
    tensors, case = read(path)
    images, labels = tensors["images"], tensors["labels"]
    model = build(case, images.shape).to(images.dtype)
    figures = {}
    begin = part(tensors, "begin.")
    # A stem that is not torchvision's is made after the rest, so that other weights are drawn.
    if case["stem"] == "imagenet" and images.shape[1] == 3:
        figures["first weights"] = worst(begin, model.state_dict())
    model.load_state_dict(begin, strict=True)

    logits = model(images)
    loss = functional.cross_entropy(logits, labels)
    loss.backward()
    model.eval()
    with torch.no_grad():
        evaluated = model(images)
    figures["logits"] = distance(tensors["logits"], logits.detach())
    figures["evaluated logits"] = distance(tensors["evaluated"], evaluated)
    figures["loss"] = distance(tensors["loss"], loss.detach())
    figures["gradients"] = worst(part(tensors, "gradient."), {n: p.grad for n, p in model.named_parameters()})
    if images.dtype == torch.float32 and case["layout"] == "channels_last":
        ours = {"logits": {"": tensors["logits"]}, "gradients": part(tensors, "gradient."),
                "buffers": part(tensors, "buffer.")}
        figures["rounding"] = rounding(
            ours, one_pass(case, images, labels, begin, torch.float32, LAYOUTS[case["layout"]]),
            one_pass(case, images, labels, begin, torch.float64, torch.contiguous_format))
    figures["buffers"] = worst(part(tensors, "buffer."), dict(model.named_buffers()))
    return figures


def make_optimizer(model, case):
    decay = case["weight_decay"]
    parameters = list(model.parameters())
    spared = [p for p in parameters if case["weight_decay_on"] == "weights" and p.ndim <= 1]
    decayed = [p for p in parameters if not any(p is other for other in spared)]
    groups = [{"params": decayed, "weight_decay": decay}, {"params": spared, "weight_decay": 0.0}]
    return torch.optim.SGD([group for group in groups if group["params"]], lr=1.0,
                           momentum=case["momentum"], nesterov=case["nesterov"])


def judge_steps(folder):
    batches, case = read(folder / "batches.safetensors")
    images, labels, losses = batches["images"], batches["labels"], batches["losses"]
    precision = {"fp32": torch.float32, "fp64": torch.float64}[case["precision"]]
    model = build(case, images.shape[1:]).to(precision)
    model.load_state_dict(load_file(folder / "begin.safetensors"), strict=True)
    optimizer = make_optimizer(model, case)
    mean = torch.tensor(case["mean"], dtype=precision).reshape(-1, 1, 1)
    stddev = torch.tensor(case["stddev"], dtype=precision).reshape(-1, 1, 1)
    theirs = []
    for step, rate in enumerate(case["rates"]):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        pixels = (images[step].to(precision) / 255 - mean) / stddev
        loss = functional.cross_entropy(model(pixels), labels[step], label_smoothing=case["label_smoothing"])
        loss.backward()
        optimizer.step()
        theirs.append(loss.detach().double())

    end = load_file(folder / "end.safetensors")
    figures = {"losses": distance(losses, torch.stack(theirs)), "weights": worst(end, model.state_dict())}
    build(case, images.shape[1:]).load_state_dict(end, strict=True)
    return figures


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    judge = {"network": judge_network, "steps": judge_steps}[sys.argv[1]]
    places = [pathlib.Path(place) for place in sys.argv[2:]]
    print(json.dumps({place.stem: judge(place) for place in places}, indent=1))


if __name__ == "__main__":
    main()
