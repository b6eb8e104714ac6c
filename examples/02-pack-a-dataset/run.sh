#!/usr/bin/env bash
# The README of this example, as a script. `tern` must be on the PATH. Runs in the folder it is
# started from; more words (--set key=value) are given to `tern train`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

python3 "$here/make_pictures.py" pictures
tern data import pictures packed --pack orig
tern data ls packed
tern data verify packed
tern data show packed --grid 8x4
tern data bench packed --samples 1000
tern train "$here/flags.toml" --run flags "$@"
tern report flags
