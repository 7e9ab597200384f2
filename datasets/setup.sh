#!/usr/bin/env bash
# Sets everything up (Debian packages, build, model, text) and runs the first measurement:
# the perplexity of one novel under five cache policies. May be run again and from any folder.
set -euo pipefail
# shellcheck source=datasets/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

[ $# -eq 0 ] || fail "usage: datasets/setup.sh (no arguments; KVBENCH_CACHE names the cache folder)"

step "packages"
ensure_packages "${BUILD_PACKAGES[@]}"

step "build (preset cpu-release)"
build cpu-release kvbench

step "model and books (in $KVBENCH_CACHE)"
ensure_data

step "perplexity of 4096 tokens of Emma, five policies"
"$ROOT/build/cpu-release/bin/kvbench" ppl \
  --model "$KVBENCH_CACHE/models/smollm2-135m-instruct" \
  --data "$KVBENCH_CACHE/books/janeausten/emma.txt" \
  --tokens 4096 --dtype f32 \
  --policy full --policy window256 --policy sink4+252 --policy sink4+1020 --policy window1024

step "done: the program is $ROOT/build/cpu-release/bin/kvbench"
