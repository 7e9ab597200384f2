#!/usr/bin/env bash
# Pass keys hidden in Emma, in prompts of 512 to 6144 tokens, three of each length and depth. needle_grid: 512 entries
# are kept, and the policy sees the question; needle_half: half of the prompt is kept, chosen without the question.
# Writes the records and tables that results/baselines/ holds. Usage: needle_grid.sh [FOLDER]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export KVBENCH_CACHE=${KVBENCH_CACHE:-$HOME/.cache/kvbench}
program=${KVBENCH_PROGRAM:-$root/build/cpu-release/bin/kvbench}
out=${1:-$root/results/baselines}
for name in needle_grid needle_half; do
  "$program" sweep "$root/configs/$name.json" --quiet --out "$out/$name"
  python3 "$root/results/scripts/needle_tables.py" "$out/$name" >"$out/$name/grid.md"
done
