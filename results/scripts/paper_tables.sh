#!/usr/bin/env bash
# Runs committed sweeps, one per table or figure of a paper, into results/baselines/NAME. What is there already
# is not run again. Usage: paper_tables.sh [NAME ...]; without names, all but those that measure speed or take
# hours: some minutes each on two cores.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${KVBENCH_CACHE:-$HOME/.cache/kvbench}
program=${KVBENCH_PROGRAM:-$root/build/cpu-release/bin/kvbench}
export KVBENCH_CACHE=$cache
names=("$@")
[ $# -gt 0 ] || names=(smoke streaming_sinks streaming_newline streaming_cache_size streaming_length snapkv_budgets
  snapkv_pooling snapkv_window snapkv_h2o kivi_bits)
for name in "${names[@]}"; do
  out=$root/results/baselines/$name
  "$program" sweep "$root/configs/$name.json" --quiet --out "$out"
  sed -i "s|$cache|\$KVBENCH_CACHE|g" "$out"/*.json "$out"/index.jsonl
done
