"""Tables from the records of hit_rate.sh: policies by budget, rank correlation of mass recall and loss,
SnapKV by window, kernel, pooling, layer and question, and what five policies cost over one.

Run with:  python3 results/scripts/hit_rate_tables.py FOLDER    (which holds policies, snapkv, questions, oneN, fiveN, decodingN)
Or, for the rank correlation over all hit-rate records of one folder:  hit_rate_tables.py --correlation FOLDER
"""
import json
import sys
from pathlib import Path


def rows(folder):
    lines = (Path(folder) / "index.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["task"] == "hitrate" and row["status"] == "ok"]


def records(folder):
    """Whole records, in the order of the index."""
    return [json.loads((Path(folder) / f"{row['config_hash']}.json").read_text()) for row in rows(folder)]


def ranks(values):
    """Ranks from 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for at in order[begin:end]:
            found[at] = (begin + 1 + end) / 2
        begin = end
    return found


def spearman(a, b):
    """Pearson's correlation of the ranks; None where one side is constant or there are too few."""
    if len(a) < 3:
        return None
    x, y = ranks(a), ranks(b)
    mean = (len(a) + 1) / 2
    xy = sum((p - mean) * (q - mean) for p, q in zip(x, y))
    xx = sum((p - mean) ** 2 for p in x)
    yy = sum((q - mean) ** 2 for q in y)
    return xy / (xx * yy) ** 0.5 if xx > 0 and yy > 0 else None


def correlation(policies):
    scored = [row for row in policies if row.get("nll_increase") is not None and row["policy"] != "full"]
    lines = []
    for name in ("mass_recall", "prompt_mass_recall", "hit_rate", "top_k_overlap"):
        pairs = [(row[name], row["nll_increase"]) for row in scored if row.get(name) is not None]
        rho = spearman([p for p, _ in pairs], [q for _, q in pairs])
        lines.append(f"| {name} | {'-' if rho is None else f'{rho:.3f}'} | {len(pairs)} |")
    return "\n".join(["| rank correlation with the increase of the NLL | Spearman's rho | n |", "|---|---|---|", *lines])


def policy_table(policies):
    lines = ["| policy | H | H without sinks | H, theta 0.01 | mass recall | of the prompt | top 32 | NLL increase (nat) |",
             "|---|---|---|---|---|---|---|---|"]
    for row in policies:
        lines.append(
            f"| `{row['policy']}` | {row['hit_rate']:.4f} ± {row['hit_rate_stderr']:.4f} | {row['hit_rate_after_sinks']:.4f} | "
            f"{row['hit_rate_theta_0.01']:.4f} | {row['mass_recall']:.4f} | {row['prompt_mass_recall']:.4f} | "
            f"{row['top_k_overlap']:.4f} | {row['nll_increase']:+.4f} ± {row['nll_increase_stderr']:.4f} |")
    return "\n".join(lines)


def snapkv_tables(whole):
    options = [record["policy_options"] for record in whole]
    metric = [{m["name"]: m["value"] for m in record["metrics"]} for record in whole]
    lines = ["| window | kernel | pooling | H | H without sinks | prompt mass recall | NLL increase |", "|---|---|---|---|---|---|---|"]
    for option, m in zip(options, metric):
        lines.append(f"| {option['window']} | {option['kernel']} | {option['pool']} | {m['hit_rate']:.4f} | "
                     f"{m['hit_rate_after_sinks']:.4f} | {m['prompt_mass_recall']:.4f} | {m['nll_increase']:+.4f} |")
    plain = [i for i, o in enumerate(options) if int(o["kernel"]) == 7 and o["pool"] == "max"]
    lines += ["", "| layer | " + " | ".join(f"H, window {options[i]['window']}" for i in plain) + " |", "|---" * (len(plain) + 1) + "|"]
    for layer in range(len(whole[0]["details"]["layers"])):
        values = [whole[i]["details"]["layers"][layer]["hit_rate_theta_0.05"] for i in plain]
        lines.append(f"| {layer} | " + " | ".join("-" if v is None else f"{v:.4f}" for v in values) + " |")
    return "\n".join(lines)


def question_table(whole):
    lines = ["Share of the kept entries of one context that two questions have in common:"]
    for record in whole:
        overlap = record["details"]["question_overlap"]
        lines += ["", f"`{record['policy']}`", "", "| question | " + " | ".join(str(i + 1) for i in range(len(overlap))) + " |",
                  "|---" * (len(overlap) + 1) + "|"]
        lines += [f"| {i + 1} | " + " | ".join(f"{v:.3f}" for v in row) + " |" for i, row in enumerate(overlap)]
    return "\n".join(lines)


def cost_table(folder):
    def seconds(name):
        # The load is no part of it; twin and text are shared by the records of a run.
        found = []
        for path in sorted(folder.glob(f"{name}[0-9]")):
            run = rows(path)
            found.append(run[0]["twin_s"] + sum(row["policy_s"] for row in run))
        return sorted(found)

    one = seconds("one")
    if not one:
        return ""
    lines = [f"One policy on one prompt: {one[0]:.2f} s, the full cache's pass included (fastest of {len(one)}).", "",
             "| policies | s | times one |", "|---|---|---|"]
    for name, what in (("five", "five that choose after the prompt"), ("decoding", "five, two of them choosing at every step")):
        lines += [f"| {what} | {times[0]:.2f} | {times[0] / one[0]:.2f} |" for times in [seconds(name)] if times]
    return "\n".join(lines)


def main():
    if sys.argv[1] == "--correlation":
        print(correlation(rows(sys.argv[2])))
        return
    folder = Path(sys.argv[1])
    policies = rows(folder / "policies")
    first = policies[0]
    print(f"Hit rates on {first['segments']} prompts of {first['prompt']} tokens of Emma and {first['steps']} steps after each, "
          f"SmolLM2-135M, {first['dtype']}, theta 0.05.\n")
    for part in (policy_table(policies), correlation(policies), snapkv_tables(records(folder / "snapkv")),
                 question_table(records(folder / "questions")), cost_table(folder)):
        print(part + "\n")


main()
