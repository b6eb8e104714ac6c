# What the bundle's tests share; sourced by them.
passed=0 failed=0

# check WORDS COMMAND...: one line and one count.
check() {
  local words=$1
  shift
  if "$@"; then
    echo "ok: $words"
    passed=$((passed + 1))
  else
    echo "FAILED: $words"
    failed=$((failed + 1))
  fi
}

# says TEXT COMMAND...: whether the command fails and says TEXT.
says() {
  local text=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "this was to fail, and did not: $*"
    return 1
  fi
  grep -qF -e "$text" <<<"$output" || {
    echo "'$text' was to be said, and this was: $output"
    return 1
  }
}

# copy_of_this_clone FOLDER: a clone, with what is not committed, so that tests can be run at any time.
copy_of_this_clone() {
  git clone --quiet --no-hardlinks . "$1"
  git ls-files -z --cached --others --exclude-standard |
    tar --create --null --files-from=- --ignore-failed-read 2>/dev/null |
    tar --extract --touch --no-same-owner --directory="$1"
}

finish() {
  echo "$passed passed, $failed failed"
  ((failed == 0))
}
