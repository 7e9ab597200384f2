#!/usr/bin/env bash
# One HTML page of all committed baselines that are records. Usage: report.sh [FILE]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
program=${KVBENCH_PROGRAM:-$root/build/cpu-release/bin/kvbench}
folders=()
for index in "$root"/results/baselines/*/index.jsonl; do folders+=("$(dirname "$index")"); done
"$program" report "${folders[@]}" --title "kvbench: committed baselines" --out "${1:-$root/results/report.html}"
