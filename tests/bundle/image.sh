#!/usr/bin/env bash
# The container image: built from the newest bundle in dist/, it runs the demo under podman without a
# network; and a run moves from a container to this machine and back, to the same bits as one that
# was left alone. Images and containers are in a folder that goes afterwards. Needs root, buildah, podman
# and runc.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source scripts/common.sh
source tests/bundle/checks.sh
bundle=$(ls -t dist/tern-*-linux-x86_64.tar.gz 2>/dev/null | head -n 1) || true
[[ -s $bundle ]] || die "there is no bundle in dist/. Run make dist and try again."
work=$(mktemp -d)
storage=(--root "$work/storage" --runroot "$work/runroot" --storage-driver vfs)
podman() { command podman "${storage[@]}" --runtime runc --cgroup-manager cgroupfs "$@"; }
trap 'podman rm --all --force >/dev/null 2>&1 || true; cd / && rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

image=
is_built() {
  TERN_IMAGE_STORAGE="${storage[*]}" TERN_BUNDLE=$bundle scripts/image || return 1
  image=$(podman images --format '{{.Repository}}:{{.Tag}}' localhost/tern)
  [[ $image == localhost/tern:* ]]
}
limits=(--ulimit nofile=4096:4096 --ulimit nproc=4096:4096) # this machine may not have podman's own
contain() { podman run --rm --network=none "${limits[@]}" "$@"; }

# For fewer epochs than the demo of this machine, which CI runs to its end.
demo_runs() {
  mkdir "$work/demo"
  contain -e EPOCHS=2 -v "$work/demo:/work" "$image" tern-demo || return 1
  contain -v "$work/demo:/work" "$image" tern report runs/demo --json | scripts/check-demo 0.8
}

train=(train fashion-mnist --set train.threads=1)
steps_of() { wc -l 2>/dev/null <"$1/metrics.jsonl" || echo 0; }
is_preempted_in_it() {
  local i id code
  mkdir "$work/moving"
  id=$(podman run --detach --network=none "${limits[@]}" -v "$work/moving:/work/moving" "$image" \
    tern "${train[@]}" --run /work/moving --steps 400) || return 1
  for ((i = 0; i < 1200 && $(steps_of "$work/moving") < 5; i++)); do sleep 0.05; done
  podman stop --time 60 "$id" >/dev/null
  code=$(podman inspect --format '{{.State.ExitCode}}' "$id")
  [[ $code == 75 ]] || { echo "exit code $code, expected 75 (preempted)" && podman logs "$id" && return 1; }
}
goes_on_here() {
  build/release/tern "${train[@]}" --run "$work/moving" --steps 350 >"$work/log" 2>&1 || {
    cat "$work/log" && return 1
  }
}
ends_in_it() {
  contain -v "$work/moving:/work/moving" "$image" tern "${train[@]}" --run /work/moving --steps 400
}
undisturbed() {
  build/release/tern "${train[@]}" --run "$work/still" --steps 400 >"$work/log" 2>&1 || {
    cat "$work/log" && return 1
  }
}
has_the_same_bits() { cmp "$work/moving/model.safetensors" "$work/still/model.safetensors"; }

check "the image is built" is_built
((failed == 0)) || finish
check "the demo runs in it without a network" demo_runs
check "podman stop is a notice: the run saves itself and leaves with 75" is_preempted_in_it
check "this machine goes on with the container's run" goes_on_here
check "the container ends it" ends_in_it
check "an undisturbed run here" undisturbed
check "and both have the same weights, bit for bit" has_the_same_bits
finish
