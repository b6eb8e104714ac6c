#!/usr/bin/env bash
# The README of this example, as a script. `tern` must be on the PATH. Runs in the folder it is
# started from; more words (--set key=value) are given to each `tern train`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

tern init fashion-mnist > mine.toml
tern train mine.toml --run first --steps 100 "$@"
tern train mine.toml --run first --steps 200 "$@"
tern report first
python3 "$here/load_weights.py" runs/first/model.safetensors
