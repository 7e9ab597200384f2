#!/usr/bin/env bash
# Every policy at one budget: 256 entries per layer and KV head, 8192 tokens of Emma in bf16, prompts of 1792
# tokens that the policies compress and 256 tokens each scored on what is left. Writes the table and
# the records that results/baselines/ holds. Usage: all_policies.sh [FOLDER]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${KVBENCH_CACHE:-$HOME/.cache/kvbench}
out=${1:-$root/results/baselines/all-policies-emma-8192}
program=${KVBENCH_PROGRAM:-$root/build/cpu-release/bin/kvbench}
mkdir -p "$out"
"$program" ppl --model "$cache/models/smollm2-135m-instruct" \
  --data "$cache/books/janeausten/emma.txt" --tokens 8192 --dtype bf16 \
  --protocol continue --prompt 1792 --score 256 \
  --policies-file "$root/configs/policies_256.txt" --out "$out" --resume | tee "$out/table.txt"
sed -i "s|$cache|\$KVBENCH_CACHE|g" "$out"/*.json "$out"/index.jsonl
