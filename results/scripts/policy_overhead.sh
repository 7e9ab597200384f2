#!/usr/bin/env bash
# What policies add to the time of a prompt: prefill of 4032 tokens of Emma in bf16 under every policy that
# compresses prompts, over prefill with the full cache. Rounds of small groups, each with its own run of
# `full`, so that a slow minute of the machine falls on both; the table has the median over rounds and its range.
# Usage: policy_overhead.sh [ROUNDS] [FOLDER]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${KVBENCH_CACHE:-$HOME/.cache/kvbench}
program=${KVBENCH_PROGRAM:-$root/build/cpu-release/bin/kvbench}
rounds=${1:-5}
out=${2:-$root/results/baselines/policy-overhead-4032}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

groups=(
  "window1024 sink4+1020 random:capacity=1024,timing=prefill knorm:capacity=1024 keydiff:capacity=1024"
  "lagkv:capacity=1024 tova:capacity=1024,timing=prefill snapkv:capacity=1024 pyramidkv:capacity=1024"
  "adakv:scorer=snapkv,capacity=1024 criticalkv:scorer=snapkv,capacity=1024 rkv:capacity=1024,timing=prefill"
  "expected_attention:capacity=1024 observed_attention:capacity=1024 h2o:heavy=512,recent=512,timing=prefill"
  "kvzip:capacity=1024 oracle:capacity=1024"
)

for round in $(seq "$rounds"); do
  for group in "${!groups[@]}"; do
    policies=(--policy full)
    for policy in ${groups[$group]}; do policies+=(--policy "$policy"); done
    "$program" ppl --model "$cache/models/smollm2-135m-instruct" \
      --data "$cache/books/janeausten/emma.txt" --tokens 4064 --dtype bf16 --quiet \
      --protocol continue --prompt 4032 --score 16 "${policies[@]}" --json >"$work/$round-$group.json"
  done
done

python3 - "$work" >"$out/table.md" <<'PYTHON'
import json, pathlib, statistics, sys

ratios, seconds = {}, {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    rows = json.loads(path.read_text())
    full = rows[0]["prefill_tokens_per_s"]
    environment = rows[0]["environment"]
    threads = rows[0]["threads"]
    for row in rows:
        name = row["policy"]
        seconds.setdefault(name, []).append(4032 / row["prefill_tokens_per_s"])
        if name != "full":
            ratios.setdefault(name, []).append(full / row["prefill_tokens_per_s"])
print(f"Prefill of 4032 tokens, SmolLM2-135M in bf16, {threads} threads on {environment['cpu_model']}")
print(f"({environment['isa']}); {len(next(iter(ratios.values())))} rounds. Full: median {statistics.median(seconds['full']):.2f} s,")
print(f"{min(seconds['full']):.2f} to {max(seconds['full']):.2f} s.\n")
print("| policy | over full | lowest | highest |\n|---|---|---|---|")
for name, values in ratios.items():
    print(f"| `{name}` | {statistics.median(values):.3f} | {min(values):.3f} | {max(values):.3f} |")
PYTHON
cat "$out/table.md"
