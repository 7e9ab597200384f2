# Steps that datasets/setup.sh and tests/run.sh share: packages, build, model and text, progress lines.
# Sourced by bash after `set -euo pipefail`. It holds the one list of packages.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export KVBENCH_CACHE="${KVBENCH_CACHE:-$HOME/.cache/kvbench}"
case "$KVBENCH_CACHE" in /*) ;; *) KVBENCH_CACHE="$PWD/$KVBENCH_CACHE" ;; esac
# One compiler cache serves all clones: paths below the clone do not count.
export CCACHE_BASEDIR="$ROOT" CCACHE_NOHASHDIR=1
export PYTHONDONTWRITEBYTECODE=1

BUILD_PACKAGES=(build-essential ccache cmake doctest-dev ninja-build pkg-config
  libcli11-dev libdnnl-dev libfmt-dev libhwy-dev libpcre2-dev libsentencepiece-dev libssl-dev
  libjs-chart.js libutf8proc-dev nlohmann-json3-dev
  ca-certificates python3 python3-venv)
TEST_PACKAGES=(chromium clang-format clang-tidy fonts-dejavu-core munge slurm-wlm)

CURRENT_STEP="start"

# step WORDS...: says what begins now, and how long the run has taken so far.
step() {
  CURRENT_STEP="$*"
  printf '[%4d s] %s\n' "$SECONDS" "$CURRENT_STEP"
}

# The last line of a failed run names the step.
report_failure() {
  local code=$?
  if [ "$code" -ne 0 ]; then
    printf 'FAILED (exit code %d) in the step: %s\n' "$code" "$CURRENT_STEP" >&2
  fi
}
trap report_failure EXIT

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "This needs root, and there is no sudo. Run this as root once, then this script again: $*"
  fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 "$@"
}

# ensure_packages PACKAGE...: calls apt only when one of them is missing.
ensure_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "Not a Debian system: nothing installed. Needed, under Debian's names: $*"
    return
  fi
  local missing=() package
  for package in "$@"; do
    # shellcheck disable=SC2016  # the dollar belongs to dpkg-query
    if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
      missing+=("$package")
    fi
  done
  if [ "${#missing[@]}" -eq 0 ]; then
    echo "all ${#} packages are there"
    return
  fi
  echo "missing: ${missing[*]}"
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    fail "Installing them needs root, and there is no sudo. As root, run:" \
      "apt-get update && apt-get install --no-install-recommends ${missing[*]}"
  fi
  # A third-party source that cannot be reached need not stop the installation; a real lack will.
  apt_get update || echo "apt-get update failed: going on with the package lists that are here"
  apt_get install --no-install-recommends "${missing[@]}"
}

# ensure_data: the model and the books of the first run, in the cache.
ensure_data() {
  python3 "$ROOT/datasets/make_smollm2.py"
  # A machine that never ran `apt-get update` knows no package to download the books from.
  if [ ! -d "$KVBENCH_CACHE/books/janeausten" ] && command -v apt-cache >/dev/null &&
    ! apt-cache show r-cran-janeaustenr >/dev/null 2>&1; then
    apt_get update
  fi
  python3 "$ROOT/datasets/make_books.py"
}

# build PRESET [TARGET...]: configures and builds below build/PRESET.
build() {
  local preset=$1 targets=()
  shift
  [ $# -gt 0 ] && targets=(--target "$@")
  (cd "$ROOT" && cmake --preset "$preset" && cmake --build --preset "$preset" "${targets[@]}")
}
