#!/usr/bin/env bash
# Unpacks a bundle in an empty folder and has tests/bundle/alone.sh use it in a mount namespace where
# the clone that made it is hidden.
# Usage: unpacked.sh [BUNDLE]    (the newest in dist/ if none is named)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source scripts/common.sh
bundle=${1:-$(ls -t dist/tern-*-linux-x86_64.tar.gz 2>/dev/null | head -n 1)}
[[ -s $bundle ]] || die "there is no bundle in dist/. Run make dist and try again."
libtorch=$(scripts/find-libtorch) || die "LibTorch was not found. Run make build and try again."
[[ $libtorch/ != "$PWD"/* ]] || die "LibTorch is in this clone, which the test hides. Move it out."
namespace=(unshare --mount)
[[ $(id -u) == 0 ]] || namespace+=(--map-root-user)
"${namespace[@]}" true || die "no mount namespace can be made here. Run this test as root."

empty=$(mktemp -d)
trap 'cd / && rm -rf "$empty"' EXIT
trap 'exit 130' INT TERM HUP
tar -xzf "$bundle" -C "$empty"
cp tests/bundle/alone.sh tests/bundle/checks.sh "$empty"

cd "$empty"
# shellcheck disable=SC2016
"${namespace[@]}" bash -euc '
  mount -t tmpfs -o ro none "$1"
  [[ -z $(ls -A "$1") ]] || { echo "$1 is not hidden"; exit 1; }
  exec bash ./alone.sh "$2" "$3"' _ "$OLDPWD" "$empty"/tern-* "$libtorch"
