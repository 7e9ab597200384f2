#!/usr/bin/env bash
# Pass keys hidden in Emma, in prompts of 512 to 6144 tokens, under policies that keep at most 512 entries (or
# half the prompt) per layer and KV head; bf16, the question visible. Writes the table and the records
# that results/baselines/ holds. Usage: needle_grid.sh [FOLDER]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${KVBENCH_CACHE:-$HOME/.cache/kvbench}
out=${1:-$root/results/baselines/needle-emma-passkey}
kvbench=${KVBENCH:-$root/build/cpu-release/bin/kvbench}
mkdir -p "$out"
"$kvbench" needle --model "$cache/models/smollm2-135m-instruct" \
  --data "$cache/books/janeausten/emma.txt" --dtype bf16 \
  --lengths 512,1024,2048,4096,6144 --depths 0.1,0.5,0.9 --repeats 1 \
  --policy full --policy window512 --policy sink4+508 --policy snapkv:capacity=512 \
  --policy expected_attention:keep=0.5,epsilon=0.01 --policy oracle:capacity=512 \
  --out "$out" | tee "$out/table.txt"
