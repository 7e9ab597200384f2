#!/usr/bin/env bash
# Pass keys hidden in Emma, in prompts of 512 to 6144 tokens, under policies that keep 512 entries
# per layer and KV head; bf16, the question visible, no chat template. Writes the index and the grids
# that results/baselines/ holds. Usage: needle_grid.sh [FOLDER]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${KVBENCH_CACHE:-$HOME/.cache/kvbench}
out=${1:-$root/results/baselines/needle-emma-passkey}
kvbench=${KVBENCH:-$root/build/cpu-release/bin/kvbench}
mkdir -p "$out"
"$kvbench" needle --model "$cache/models/smollm2-135m-instruct" \
  --data "$cache/books/janeausten/emma.txt" --dtype bf16 \
  --chat never --lengths 512,1024,2048,4096,6144 --depths 0.1,0.5,0.9 \
  --policy full --policy window512 --policy sink4+508 --policy snapkv:capacity=512 \
  --policy expected_attention:capacity=512 \
  --resume --quiet --out "$out"
python3 - "$out" "$cache" <<'PYTHON'
# The grid of each policy: right answers over prompts, lengths down and depths across.
import json, pathlib, sys
out, cache = pathlib.Path(sys.argv[1]), sys.argv[2]
index = out / "index.jsonl"
index.write_text(index.read_text().replace(cache, "$KVBENCH_CACHE"))
lines = []
for row in map(json.loads, index.read_text().splitlines()):
    record = json.loads((out / (row["config_hash"] + ".json")).read_text())
    cells = {(c["length"], c["depth"]): c for c in record["details"]["cells"]}
    depths = sorted({depth for _, depth in cells})
    lines += ["", f"`{row['policy']}`", "", "| tokens | " + " | ".join(map(str, depths)) + " |",
              "|---|" + "---|" * len(depths)]
    for length in sorted({length for length, _ in cells}):
        found = [cells[length, depth] for depth in depths]
        lines.append(f"| {length} | " + " | ".join(
            f"{c['right']}/{c['n']}, NLL {c['answer_nll']:.2f}, needle kept {100 * c['needle_kept']:.0f} %"
            for c in found) + " |")
(out / "grid.md").write_text("# Right answers by length and depth of the needle\n" + "\n".join(lines) + "\n")
PYTHON
