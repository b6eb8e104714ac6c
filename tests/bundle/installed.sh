#!/usr/bin/env bash
# make install and make uninstall: what is installed works, goes again to the last file, and nothing
# else is touched. Installs what is built in build/release, into folders of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source scripts/common.sh
source tests/bundle/checks.sh
umask 077 # of a careful user; what is installed must be for everyone all the same
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
libtorch=$(scripts/find-libtorch) || die "LibTorch was not found. Run make build and try again."

# make_at PREFIX TARGET [ARGUMENT...]: quiet where it succeeds.
make_at() {
  local prefix=$1 output
  shift
  output=$(make "$@" PREFIX="$prefix" 2>&1) || { echo "$output" && return 1; }
}
# Everything below a folder: kind, mode, path, and for files the time of the last change.
contents() { find "$1" -mindepth 1 \( -type f -printf 'f %m %P %T@\n' \) -o -printf '%y %m %P\n' | sort; }
is_left_as_it_was() { diff <(echo "$before") <(contents "$1"); }
is_empty() { [[ -z $(ls -A "$1") ]] || { find "$1" && return 1; }; }

# A prefix with a space in its name, and with files of others in the same folders.
prefix="$work/a prefix"
mkdir -p "$prefix"/{bin,share/doc/other,share/tern}
touch "$prefix"/{bin/other,share/doc/other/README,share/tern/mine}
before=$(contents "$prefix")
trains() {
  (cd "$work" && env -i TERN_LIBTORCH="$libtorch" "$prefix/bin/tern" train fashion-mnist --steps 2 \
    --run a --set train.threads=1 >log 2>&1) || { cat "$work/log" && return 1; }
}
is_for_everyone() {
  local closed
  closed=$(sed -nE 's/^folder  //p; s/^[0-9a-f]{64}  //p' "$prefix/share/tern/manifest.txt" |
    (cd "$prefix" && xargs -d '\n' -I{} find {} -maxdepth 0 ! -perm -go=r))
  [[ -z $closed ]] || { echo "not for everyone: $closed" && return 1; }
}
check "make install installs" make_at "$prefix" install
check "the installed tern trains" trains
check "everyone can read what was installed" is_for_everyone
check "it can be installed again" make_at "$prefix" install
check "make uninstall uninstalls" make_at "$prefix" uninstall
check "what was there before is left as it was" is_left_as_it_was "$prefix"
check "a second make uninstall says that nothing is there" \
  says "no Tern was installed in $prefix" make_at "$prefix" uninstall

# A prefix that has to be made, and an older version in it that had a file more.
prefix=$work/new/opt/tern
older() {
  mkdir -p "$prefix/libexec/old"
  echo old >"$prefix/libexec/old/tern-old"
  { echo 'folder  libexec/old' && sha256sum <<<old | sed 's|-$|libexec/old/tern-old|'; } \
    >>"$prefix/share/tern/manifest.txt"
}
make_at "$prefix" install
older
check "a newer version is installed over an older one" make_at "$prefix" install
check "what the newer one has no more is gone" [ ! -e "$prefix/libexec/old" ]
check "it is uninstalled" make_at "$prefix" uninstall
check "folders that install made are gone" [ ! -e "$work/new" ]

# A file that its user has changed.
prefix=$work/changed
make_at "$prefix" install
echo '# mine' >>"$prefix/share/tern/recipes/fashion-mnist.toml"
tells_what_stays() { make uninstall PREFIX="$prefix" 2>&1 | grep -F "fashion-mnist.toml was changed"; }
check "a changed file is told of" tells_what_stays
check "and it alone stays" [ "$(find "$prefix" -type f)" == "$prefix/share/tern/recipes/fashion-mnist.toml" ]

# An install that fails in the middle: a folder stands where a file must go.
prefix=$work/broken
mkdir -p "$prefix/share/tern/recipes/fashion-mnist.toml/x"
before=$(contents "$prefix")
check "an install that cannot go on says where" \
  says "share/tern/recipes/fashion-mnist.toml" make_at "$prefix" install
check "what it did is uninstalled" make_at "$prefix" uninstall
check "and nothing else" is_left_as_it_was "$prefix"

mkdir "$work/dest"
check "DESTDIR goes in front" make_at /opt/tern install DESTDIR="$work/dest"
check "so that tern is there" "$work/dest/opt/tern/bin/tern" --version
check "and goes again" make_at /opt/tern uninstall DESTDIR="$work/dest"
check "without a trace" is_empty "$work/dest"

# Even root cannot write to a read-only file system.
read_only() {
  local namespace=(unshare --mount)
  [[ $(id -u) == 0 ]] || namespace+=(--map-root-user)
  mkdir -p "$work/ro"
  # shellcheck disable=SC2016
  "${namespace[@]}" bash -c 'mount -t tmpfs -o ro none "$1" && make install PREFIX="$1/tern"' _ "$work/ro"
}
check "a place that cannot be written is refused, with another" says 'PREFIX=$HOME/.local' read_only
check "a PREFIX that is a file is refused" says "is not a folder" make_at "$PWD/README.md" install
check "a relative PREFIX is refused" says "must begin with a slash" make_at here install
finish
