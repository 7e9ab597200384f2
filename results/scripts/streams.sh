#!/usr/bin/env bash
# Decoding several sequences side by side: decoded tokens per second of 1, 4 and 16 streams at a depth of 1024 tokens in
# bf16, by `bench`, and scored tokens per second of `ppl`, which evicts at each token, on segments of Emma. Numbers of streams
# take turns; the table has medians over the rounds, and their ratios to one stream within the same round. runs.json has all.
# Usage: streams.sh [ROUNDS] [FOLDER]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${KVBENCH_CACHE:-$HOME/.cache/kvbench}
program=${KVBENCH_PROGRAM:-$root/build/cpu-release/bin/kvbench}
rounds=${1:-3}
out=${2:-$root/results/baselines/streams-1024}
model=$cache/models/smollm2-135m-instruct
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

for round in $(seq "$rounds"); do
  for streams in 1 4 16; do
    "$program" bench --model "$model" --dtype bf16 --depths 1024 --steps 24 --repeats 1 --quiet --streams "$streams" \
      --policy full --policy sink4+1020 --policy h2o:heavy=512,recent=512 --json >"$work/bench-$round-$streams.json"
    "$program" ppl --model "$model" --data "$cache/books/janeausten/emma.txt" --dtype bf16 --quiet \
      --tokens $((streams * 1280)) --protocol strided --window 1280 --streams "$streams" \
      --policy h2o:heavy=512,recent=512 --json >"$work/ppl-$round-$streams.json"
  done
done

python3 - "$work" "$out" <<'PYTHON'
import json, pathlib, statistics, sys

work, out = map(pathlib.Path, sys.argv[1:])
rates = {}  # (task, policy) -> {streams: [rate of each round]}
for path in sorted(work.glob("*.json")):
    for row in json.loads(path.read_text()):
        rate = row["decode_tokens_per_s" if row["task"] == "bench" else "tokens_per_s"]
        rates.setdefault((row["task"], row["policy"]), {}).setdefault(row["streams"], []).append(rate)
machine = f"{row['threads']} threads on {row['environment']['cpu_model']} ({row['environment']['isa']})"
lines = [
    f"SmolLM2-135M in bf16, {machine}. Tokens per second of all streams together, median over rounds, and over one stream.\n",
    "| task | policy | streams | tokens/s | over one stream | rounds |\n|---|---|---|---|---|---|",
]
for (task, policy), of_streams in rates.items():
    for streams, found in sorted(of_streams.items()):
        ratio = statistics.median(a / b for a, b in zip(found, of_streams[1]))
        lines.append(
            f"| {task} | `{policy}` | {streams} | {statistics.median(found):.1f} | {ratio:.2f} | {len(found)} |"
        )
(out / "table.md").write_text("\n".join(lines) + "\n")
runs = [{"task": t, "policy": p, "tokens_per_s": {str(s): r for s, r in found.items()}} for (t, p), found in rates.items()]
(out / "runs.json").write_text(json.dumps({"machine": machine, "runs": runs}) + "\n")
PYTHON
cat "$out/table.md"
