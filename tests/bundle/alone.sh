#!/usr/bin/env bash
# An unpacked bundle alone with LibTorch: with TERN_LIBTORCH as the only variable it trains, is
# preempted, resumes and reports, and loads no library but its own, LibTorch's and glibc's. Run in an
# empty folder, by unpacked.sh and scripts/test-bare-root; needs only what a minimal Debian has, and
# the data of the recipe fashion-mnist.
# Usage: alone.sh BUNDLE LIBTORCH    (folders, with their full names)
set -euo pipefail
bundle=$1 libtorch=$2
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh"
child=
trap '[[ -z $child ]] || kill -KILL "$child" 2>/dev/null || true' EXIT

# One thread, so that it is as quick beside other work. The notice comes long before the last step.
train=(train fashion-mnist --steps 60 --run a --set train.threads=1)
tern() { env -i TERN_LIBTORCH="$libtorch" "$bundle/bin/tern" "$@"; }

# Libraries that are none of those that may be loaded, out of paths or "NAME not found" on stdin.
strangers() {
  local path found=1
  while read -r path; do
    [[ $path != /* ]] || path=$(realpath -ms "$path") # bin/../lib is lib
    case $path in
      "$bundle"/lib/* | "$(dirname "$libtorch")"/*) ;;
      /*/ld-linux-x86-64.so.2 | /*/lib[cm].so.6 | /*/libpthread.so.0) ;;
      /*/libdl.so.2 | /*/librt.so.1 | /*/libutil.so.1 | /*/libresolv.so.2) ;;
      *)
        echo "loaded from elsewhere: $path"
        found=0
        ;;
    esac
  done
  return "$found"
}

# libraries_of PROGRAM: as the loader would find them, with the variable that tern gives its trainer.
libraries_of() {
  env -i LD_LIBRARY_PATH="$libtorch/lib:$bundle/lib" ldd "$bundle/$1" |
    sed -nE 's/^\t([^ ]+) => not found.*/\1 not found/p; s/^\t.* => (\/[^ ]+) .*/\1/p'
}
loads_only_ours() { ! libraries_of "$1" | strangers; }
misses_its_library() {
  local status=0
  mv "$bundle/lib/libfmt.so.9" "$bundle/libfmt.aside"
  libraries_of "$1" | strangers >/dev/null || status=1
  mv "$bundle/libfmt.aside" "$bundle/lib/libfmt.so.9"
  return "$status"
}

# libcurl is loaded when it is first needed, so ldd does not know of it. Nobody listens at the port.
curl_is_ours() {
  local loaded
  loaded=$(env -i LD_DEBUG=libs AWS_ENDPOINT_URL=http://127.0.0.1:9 AWS_ACCESS_KEY_ID=a \
    AWS_SECRET_ACCESS_KEY=b timeout 5 "$bundle/bin/tern" store ls s3://bucket/prefix 2>&1 |
    sed -n 's/.*calling init: //p') || true
  grep -F "$bundle/bin/../lib/libcurl.so.4" <<<"$loaded" >/dev/null && ! strangers <<<"$loaded"
}

# What the process $child has mapped once it trains.
mapped=
wait_for_steps() { # COUNT
  for ((i = 0; i < 2400; i++)); do
    kill -0 "$child" 2>/dev/null || return 1
    if [[ -s runs/a/metrics.jsonl ]] && (($(wc -l <runs/a/metrics.jsonl) >= $1)); then
      mapped=$(awk '$6 ~ /^\/.*\.so(\.|$)/ { print $6 }' "/proc/$child/maps" | sort -u)
      return 0
    fi
    sleep 0.05
  done
  return 1
}
is_preempted() {
  local code=0
  env -i TERN_LIBTORCH="$libtorch" "$bundle/bin/tern" "${train[@]}" </dev/null >log 2>&1 &
  child=$!
  wait_for_steps 5 || { cat log && return 1; }
  kill -TERM "$child"
  wait "$child" || code=$?
  child=
  [[ $code == 75 ]] || { cat log && return 1; }
}
mapped_only_ours() { [[ -n $mapped ]] && ! strangers <<<"$mapped"; }
resumes() { tern "${train[@]}" >log 2>&1 || { cat log && return 1; }; }
report_says() { tern report a --json | tr -d ' \n' | grep -F -e "$1" >/dev/null; }
recipes_are_found() { tern recipes | grep -F "$bundle/share/tern/recipes" >/dev/null; }

check "it tells its version" tern --version
check "its recipes are found" recipes_are_found
check "a library missing from the bundle is noticed" misses_its_library bin/tern
check "tern needs only its own libraries and glibc's" loads_only_ours bin/tern
check "tern-train needs only its own libraries, LibTorch's and glibc's" loads_only_ours libexec/tern-train
check "libcurl and all that it needs are its own" curl_is_ours
check "it trains, and a notice ends it with exit code 75" is_preempted
check "only its own libraries, LibTorch's and glibc's were loaded" mapped_only_ours
check "the same command goes on to the end" resumes
check "the report says done" report_says '"status":"done"'
check "the report says one interruption" report_says '"interruptions":1'
check "the report says no steps lost" report_says '"steps_lost":0'
finish
