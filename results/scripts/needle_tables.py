"""Tables of a folder of needle records: right answers over prompts by length and depth of the needle, with the NLL of
the right answer per token and the share of the needle's entries that are kept; and the totals of each policy.

Also makes the records fit to be kept: without this machine's paths, and without blanks.
Run with:  python3 results/scripts/needle_tables.py FOLDER    (KVBENCH_CACHE: the path that goes)
"""
import json
import os
import sys
from pathlib import Path


def compact(folder):
    cache = os.environ.get("KVBENCH_CACHE", str(Path.home() / ".cache/kvbench"))
    for path in folder.glob("*.json"):
        record = json.loads(path.read_text().replace(cache, "$KVBENCH_CACHE"))
        path.write_text(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
    index = folder / "index.jsonl"
    index.write_text(index.read_text().replace(cache, "$KVBENCH_CACHE"))


def grid(policy, record):
    cells = {(c["length"], c["depth"]): c for c in record["details"]["cells"]}
    depths = sorted({depth for _, depth in cells})
    lines = [f"`{policy}`", "", "| tokens | " + " | ".join(f"depth {d}" for d in depths) + " |", "|---" * (len(depths) + 1) + "|"]
    for length in sorted({length for length, _ in cells}):
        found = [cells[length, depth] for depth in depths]
        lines.append(f"| {length} | " + " | ".join(
            f"{c['right']}/{c['n']}, NLL {c['answer_nll']:.2f}, kept {100 * c['needle_kept']:.0f} %" for c in found) + " |")
    return "\n".join(lines)


def total(row):
    return (f"| `{row['policy']}` | {row['accuracy']:.3f} ({row['accuracy_low']:.3f} to {row['accuracy_high']:.3f}) | "
            f"{row['leading_right_share']:.3f} | {row['answer_nll_mean']:.3f} | {row['control_nll_mean']:.3f} | "
            f"{row['control_accuracy']:.3f} | {100 * row['needle_kept']:.1f} % | {100 * row['kv_ratio_to_full']:.1f} % |")


def main():
    folder = Path(sys.argv[1])
    compact(folder)
    last = {}
    for row in map(json.loads, (folder / "index.jsonl").read_text().splitlines()):
        last[row["config_hash"]] = row
    rows = [row for row in last.values() if row["status"] == "ok"]
    first = rows[0]
    print(f"Pass keys: {first['prompts']} prompts with a needle and {first['control_prompts']} without, the question "
          f"{first['question']}, {first['dtype']}.\n")
    print("| policy | right (Wilson, 95 %) | leading digits right | answer NLL | without needle | right without | needle kept | KV/full |")
    print("|---" * 8 + "|")
    print("\n".join(map(total, rows)))
    for row in rows:
        print("\n" + grid(row["policy"], json.loads((folder / f"{row['config_hash']}.json").read_text())))


main()
