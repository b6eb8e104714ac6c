#include "fleet/fetch_libtorch.h"

#include <fmt/format.h>

#include "core/system_files.h"
#include "fleet/child_process.h"

namespace tern {
namespace {

constexpr int kNoPip = 3;
constexpr std::chrono::hours kLimit{2};

// Words after the script: target, version, driver, list of wheels. Parts that killed fetches left
// end in their pid, which a later process may have got, such as this one. The platforms are said
// because only the wheels' C++ half is used, whatever Python runs pip.
constexpr char kScript[] = R"sh(set -eu
target=$1 version=$2 driver=$3 wheels=$4
python=
for each in python3 /usr/bin/python3; do
  if "$each" -m pip --version >/dev/null 2>&1; then python=$each; break; fi
done
if [ -z "$python" ]; then exit 3; fi
mkdir -p "$(dirname "$target")"
for old in "$target".part.*; do
  if [ -d "$old" ] && { [ "${old##*.}" = "$$" ] || ! kill -0 "${old##*.}" 2>/dev/null; }; then
    rm -rf "$old"
  fi
done
part=$target.part.$$
mkdir "$part"
trap 'rm -rf "$part"' EXIT
trap 'exit 130' INT TERM HUP
if [ -e "$driver" ]; then
  "$python" -m pip install --only-binary=:all: --no-cache-dir --disable-pip-version-check \
    --no-warn-script-location --target "$part/tree" "torch==$version" >&2
else
  printf '%s\n' "$wheels" >"$part/list"
  "$python" -m pip download --no-deps --only-binary=:all: --no-cache-dir \
    --disable-pip-version-check --implementation cp --python-version 3.11 \
    --abi cp311 --abi abi3 --abi none --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 --require-hashes -r "$part/list" -d "$part/wheels" >&2
  for wheel in "$part"/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$part/tree" >&2; done
fi
sync -f "$part/tree" 2>/dev/null || sync
if [ -e "$target" ] && [ ! -e "$target/torch/lib/libtorch_cpu.so" ]; then
  mv -T "$target" "$part/damaged"
fi
mv -T "$part/tree" "$target" 2>/dev/null || [ -e "$target/torch/lib/libtorch_cpu.so" ]
)sh";

std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const size_t begin = text.rfind('\n');
  return printable_line(begin == std::string_view::npos ? text : text.substr(begin + 1));
}

}  // namespace

Status fetch_libtorch(const LibTorchFetch& fetch, Clock& clock) {
  const ChildSetup setup{
      .command = {"/bin/sh", "-c", kScript, "tern-fetch-libtorch", fetch.target.string(),
                  fetch.version, fetch.driver.string(), TERN_LIBTORCH_WHEELS},
      .limit = kLimit};
  ASSIGN_OR_RETURN(const ChildAnswer answer, run_child(setup, clock, {}));
  if (answer.exit_code == 0) return {};
  const std::string by_hand = fmt::format(
      "`pip install torch=={}` there, or set TERN_LIBTORCH to the folder of one", fetch.version);
  if (answer.exit_code == kNoPip) {
    return fail(Code::not_found,
                fmt::format("LibTorch {} is not there, nor a Python with pip that could fetch it; "
                            "install python3-pip, or {}",
                            fetch.version, by_hand));
  }
  return fail(Code::unavailable,
              fmt::format("LibTorch {} could not be fetched: {}; try again, or {}", fetch.version,
                          last_line(answer.err), by_hand));
}

}  // namespace tern
