# What the scripts share; sourced by them.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tern

say() { echo "tern: $*" >&2; }

die() {
  echo "tern: error: $*" >&2
  exit 1
}

# A user's own Python may lack pip; Debian's has it from python3-pip.
python_with_pip() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      echo "$python"
      return
    fi
  done
  die "No Python with pip was found. Install python3-pip and try again."
}

# begin_part TARGET: makes $part, a folder beside TARGET that goes when the script ends, whatever
# happens; those left by fetches that were killed (the name ends in their pid, which a later process
# may have got, such as this one) go first.
begin_part() {
  local old
  mkdir -p "$(dirname "$1")"
  for old in "$1".part.*; do
    if [[ -d $old ]] && { [[ ${old##*.} == "$$" ]] || ! kill -0 "${old##*.}" 2>/dev/null; }; then
      rm -rf "$old"
    fi
  done
  part=$1.part.$$
  mkdir "$part"
  trap 'rm -rf "$part"' EXIT
  trap 'exit 130' INT TERM HUP
}

# finish_part FOLDER TARGET: publishes FOLDER as TARGET by one rename. If another clone was quicker,
# its result stands.
finish_part() {
  sync -f "$1"
  mv -T "$1" "$2" 2>/dev/null || [[ -d $2 ]] || die "$2 could not be written."
}

# debian_sources: sets `sources` and `apt_options`, by which mmdebstrap fetches what this machine's apt
# would, over the same mirrors and proxies.
debian_sources() {
  local file
  sources=() apt_options=()
  for file in /etc/apt/apt.conf.d/*; do
    if grep -qs '^ *Acquire::' "$file"; then apt_options+=(--aptopt="$file"); fi
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
    if grep -qs bookworm "$file"; then sources+=("$file"); fi
  done
}
