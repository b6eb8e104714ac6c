"""Loads the weights of a run with Python's safetensors, and nothing of Tern."""

import sys

from safetensors.numpy import load_file

weights = load_file(sys.argv[1])
for name, tensor in sorted(weights.items()):
    print(f"{name:14} {str(tensor.shape):18} {tensor.dtype}")
print(f"{sum(tensor.size for tensor in weights.values()):,} parameters")

# In PyTorch the same names load into the same layers:
#   from safetensors.torch import load_file
#   model.load_state_dict(load_file("runs/first/model.safetensors"), strict=True)
