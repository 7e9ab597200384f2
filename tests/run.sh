#!/usr/bin/env bash
# Sets up and runs all tests: source checks, release build, sanitizer build, clang-tidy, CUDA kernels
# (compiled where nvcc exists), then CTest. Ends with CTest's summary. May be run again, from any folder.
#   tests/run.sh            everything
#   tests/run.sh --quick    without the sanitizer build, clang-tidy and nvcc
set -euo pipefail
# shellcheck source=datasets/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/../datasets/steps.sh"

QUICK=no
for argument in "$@"; do
  case "$argument" in
    --quick) QUICK=yes ;;
    *) fail "unknown argument '$argument'; usage: tests/run.sh [--quick]" ;;
  esac
done

step "packages"
ensure_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"

step "clang-format"
python3 "$ROOT/tests/repository/clang_format.py"

step "rules of the source tree"
python3 "$ROOT/tests/repository/source_rules.py"

step "model and books (in $KVBENCH_CACHE)"
ensure_data

step "published tokenizers and their own libraries (in $KVBENCH_CACHE)"
python3 "$ROOT/datasets/make_tokenizers.py" || echo "going on without them: the test program/real_tokenizers is skipped"

step "release build"
build cpu-release

if [ "$QUICK" = no ]; then
  step "sanitizer build of the unit tests and fuzz replays"
  build asan-ubsan all_unit_tests all_fuzz_tests

  step "clang-tidy over lib and apps"
  python3 "$ROOT/tests/repository/clang_tidy.py" "$ROOT/build/cpu-release"

  if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    step "CUDA kernels, compiled; their registers and spills"
    PATH="$PATH:/usr/local/cuda/bin" build cuda-release kernel_resources all_gpu_tests
  fi

  step "unit tests and fuzz replays under AddressSanitizer and UndefinedBehaviorSanitizer"
  (cd "$ROOT" && ctest --preset asan-ubsan -L '^(unit|fuzz)$')
fi

step "all tests of the release build"
cd "$ROOT" && ctest --preset cpu-release
