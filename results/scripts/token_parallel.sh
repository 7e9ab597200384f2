#!/usr/bin/env bash
# How much faster a sink policy is evaluated many tokens at once than token by token, in one run:
# A B A B, the same text, the same losses. Prints tokens per second of each, their ratio and the
# difference of the mean losses. Usage: token_parallel.sh [TOKENS] [POLICY]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${KVBENCH_CACHE:-$HOME/.cache/kvbench}
tokens=${1:-2048}
policy=${2:-sink4+1020}

measure() {  # chunk
  "$root/build/cpu-release/bin/kvbench" ppl --json --quiet --dtype f32 --chunk "$1" \
    --model "$cache/models/smollm2-135m-instruct" --data "$cache/books/janeausten/emma.txt" \
    --tokens "$tokens" --policy "$policy"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for round in 1 2; do
  measure 512 >"$work/parallel_$round.json"
  measure 1 >"$work/single_$round.json"
done
python3 - "$work" <<'PY'
import json, sys
def rows(kind):
    return [json.load(open(f"{sys.argv[1]}/{kind}_{r}.json"))[0] for r in (1, 2)]
parallel, single = rows("parallel"), rows("single")
def speed(rows):
    return max(row["tokens_per_s"] for row in rows)
print(f"policy {parallel[0]['policy']}, {parallel[0]['tokens_scored']} tokens, {parallel[0]['dtype']}")
print(f"many at once   {speed(parallel):9.1f} tok/s")
print(f"token by token {speed(single):9.1f} tok/s")
print(f"ratio          {speed(parallel) / speed(single):9.2f}")
print(f"difference of the mean losses {abs(parallel[0]['nll_mean'] - single[0]['nll_mean']):.1e} nat")
PY
