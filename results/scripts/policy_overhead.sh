#!/usr/bin/env bash
# What policies add to the time of a prompt: prefill of 4032 tokens of Emma in bf16 under every policy that
# compresses prompts, over prefill with the full cache. Rounds of small groups, each with its own run of `full`,
# so that both meet the same machine. Other work on it only adds time: the table compares the fastest runs, and
# shows the second fastest and the median beside them. seconds.json has every run.
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

python3 - "$work" "$out" <<'PYTHON'
import json, pathlib, statistics, sys

work, out = map(pathlib.Path, sys.argv[1:])
seconds = {}
for path in sorted(work.glob("*.json")):
    for row in json.loads(path.read_text()):
        seconds.setdefault(row["policy"], []).append(round(4032 / row["prefill_tokens_per_s"], 3))
machine = f"{row['threads']} threads on {row['environment']['cpu_model']} ({row['environment']['isa']})"
full = sorted(seconds["full"])
lines = [
    f"Prefill of 4032 tokens, SmolLM2-135M in bf16, {machine}. `full`: fastest {full[0]:.2f} s, second {full[1]:.2f} s,",
    f"median {statistics.median(full):.2f} s of {len(full)}. Each figure is a time over the fastest of `full`.\n",
    "| policy | fastest | second | median | runs |\n|---|---|---|---|---|",
]
for name, times in seconds.items():
    if name == "full":
        continue
    times = sorted(times)
    ratios = [t / full[0] for t in (times[0], times[min(1, len(times) - 1)], statistics.median(times))]
    lines.append(f"| `{name}` | " + " | ".join(f"{r:.3f}" for r in ratios) + f" | {len(times)} |")
(out / "table.md").write_text("\n".join(lines) + "\n")
(out / "seconds.json").write_text(json.dumps({"machine": machine, "prefill_s": seconds}) + "\n")
PYTHON
cat "$out/table.md"
