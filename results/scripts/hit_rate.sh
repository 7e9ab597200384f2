#!/usr/bin/env bash
# How much of what the full cache attends to each policy still holds: hit rate, attention-mass recall and loss of
# six policies at three budgets; SnapKV by layer, window, kernel, pooling and question; what five policies cost
# over one. Emma, SmolLM2-135M. Writes the tables and records that results/baselines/ holds.
# Usage: hit_rate.sh [FOLDER] [PROMPT] [STEPS] [SEGMENTS]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${KVBENCH_CACHE:-$HOME/.cache/kvbench}
program=${KVBENCH_PROGRAM:-$root/build/cpu-release/bin/kvbench}
out=${1:-$root/results/baselines/hit-rate-emma}
prompt=${2:-2048}
steps=${3:-64}
segments=${4:-2}
threads=${KVBENCH_THREADS:-0}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

hitrate() {  # folder, more options
  local folder=$1
  shift
  "$program" hitrate --model "$cache/models/smollm2-135m-instruct" \
    --data "$cache/books/janeausten/emma.txt" --dtype bf16 --threads "$threads" --quiet \
    --prompt "$prompt" --steps "$steps" --theta 0.05,0.01 --out "$work/$folder" "$@"
}

# All budgets share one pass of the full cache.
policies=()
for budget in 128 256 512; do
  while read -r policy; do policies+=(--policy "$policy"); done < <(grep -v '^#' "$root/configs/hit_rate/budget_$budget.txt")
done
hitrate policies --segments "$segments" --policy full "${policies[@]}" >"$out/policies.txt"
hitrate snapkv --segments "$segments" --tail 64 --policies-file "$root/configs/hit_rate/snapkv.txt" >"$out/snapkv.txt"
hitrate questions --source greedy --questions-file "$root/configs/hit_rate/questions.txt" \
  --policy snapkv:capacity=256,window=16 --policy snapkv:capacity=256,window=32 >"$out/questions.txt"

# Five policies over one, taken in turn; other work on the machine only adds time. Policies that choose during decoding
# run token by token, each on its own.
after_prompt=(snapkv:capacity=256,window=32 h2o:heavy=128,recent=128,timing=prefill tova:capacity=256,timing=prefill
  knorm:capacity=256 oracle:capacity=256)
decoding=(snapkv:capacity=256,window=32 h2o:heavy=128,recent=128 tova:capacity=256 knorm:capacity=256 oracle:capacity=256)
for round in 1 2 3; do
  hitrate "one$round" --policy "${after_prompt[0]}" >/dev/null
  hitrate "five$round" "${after_prompt[@]/#/--policy=}" >/dev/null
  hitrate "decoding$round" "${decoding[@]/#/--policy=}" >/dev/null
done

for folder in policies snapkv questions; do
  sed "s|$cache|\$KVBENCH_CACHE|g" "$work/$folder/index.jsonl" >"$out/$folder.jsonl"
done
python3 "$root/results/scripts/hit_rate_tables.py" "$work" | tee "$out/tables.md"
