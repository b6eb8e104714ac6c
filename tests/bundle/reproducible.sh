#!/usr/bin/env bash
# Equal sources give equal bundles: dist/'s is made again from a copy of this clone in another folder,
# with other times on its files, and compared.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source scripts/common.sh
source tests/bundle/checks.sh
sums=(dist/tern-*-linux-x86_64.tar.gz.sha256)
[[ -s ${sums[0]} && ${#sums[@]} == 1 ]] ||
  die "dist/ must hold one bundle. Run make clean dist and try again."
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
trap 'exit 130' INT TERM HUP

copy_of_this_clone "$again/another-folder"
make_again() {
  (cd "$again/another-folder" && make dist >"$again/log" 2>&1) ||
    { tail -n 30 "$again/log" && return 1; }
}
check "a copy of this clone makes a bundle" make_again
check "it is the same to the last byte" diff "${sums[0]}" "$again/another-folder/${sums[0]}"
finish
