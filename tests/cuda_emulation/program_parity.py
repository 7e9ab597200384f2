"""`kvbench ppl` on the emulated CUDA device prints the CPU backend's table and writes its records.

    python3 tests/cuda_emulation/program_parity.py KVBENCH_EMULATED MODEL_FOLDER

KVBENCH_EMULATED is the program with the emulated device as its backend "cuda". Text must be equal, numbers to
1e-5 of their size (a printed one may round to its neighbour); what tells of machine and speed is left out.
"""
import json
import re
import subprocess
import sys

RUNS = [
    [["full", "window8", "sink2+6", "sink2+6:positions=original", "recompute8", "h2o:heavy=4,recent=4"]],
    [["full", "snapkv:capacity=8,window=4,kernel=3"], "--protocol", "continue", "--prompt", "20", "--score", "9"],
    [["full", "sink2+14"], "--kv", "kivi:bits=2,group=4,residual=8"],
    [["full", "sink2+6"], "--softmax-off-by-one"],
]
MEASURED_KEYS = {"tokens_per_s", "prefill_tokens_per_s", "decode_tokens_per_s", "started_at", "peak_rss_bytes",
                 "timings", "backend", "environment", "config_hash"}
MEASURED_COLUMNS = {"tok/s"}
TOLERANCE = 1e-5
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def run(program, model, backend, policies, arguments):
    ids = ",".join(str((i * i * 7 + 3 * i + 1) % 32) for i in range(40))
    command = [program, "ppl", "--model", model, "--threads", "1", "--quiet", "--backend", backend, "--ids", ids]
    for policy in policies:
        command += ["--policy", policy]
    done = subprocess.run(command + arguments, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command + arguments)}: status {done.returncode}\n{done.stderr}")
    return done.stdout


def cells(table):
    """[{column: cell}] of a printed table: columns are two or more blanks apart."""
    split = [re.split(r"\s{2,}", line.strip()) for line in table.splitlines() if line.strip()]
    rows = [dict(zip(split[0], row)) for row in split[1:] if len(row) == len(split[0])]
    return [{column: row[column] for column in row if column not in MEASURED_COLUMNS} for row in rows]


def differences(path, cpu, cuda):
    """Lines that say where two values differ by more than rounding."""
    if isinstance(cpu, dict) and isinstance(cuda, dict):
        if cpu.keys() != cuda.keys():
            return [f"{path}: keys {sorted(cpu)} and {sorted(cuda)}"]
        return [line for key in cpu if key not in MEASURED_KEYS
                for line in differences(f"{path}.{key}", cpu[key], cuda[key])]
    if isinstance(cpu, list) and isinstance(cuda, list):
        if len(cpu) != len(cuda):
            return [f"{path}: {len(cpu)} and {len(cuda)} entries"]
        return [line for i, (a, b) in enumerate(zip(cpu, cuda)) for line in differences(f"{path}[{i}]", a, b)]
    if isinstance(cpu, str) and isinstance(cuda, str):
        same_text = NUMBER.sub("0", cpu) == NUMBER.sub("0", cuda)
        numbers = zip(map(float, NUMBER.findall(cpu)), map(float, NUMBER.findall(cuda)))
        return [] if same_text and all(close(a, b) for a, b in numbers) else [f"{path}: '{cpu}' and '{cuda}'"]
    if isinstance(cpu, float) and isinstance(cuda, (int, float)):
        return [] if close(cpu, cuda) else [f"{path}: {cpu} and {cuda}"]
    return [] if cpu == cuda else [f"{path}: {cpu} and {cuda}"]


def close(a, b):
    return abs(a - b) <= TOLERANCE * max(1.0, abs(a))


def compare(program, model, policies, arguments):
    tables = [cells(run(program, model, backend, policies, arguments)) for backend in ("cpu", "cuda")]
    arguments = arguments + ["--json"]
    records = [json.loads(run(program, model, backend, policies, arguments)) for backend in ("cpu", "cuda")]
    if any(len(rows) != len(policies) or "policy" not in rows[0] for rows in tables):
        sys.exit(f"tables of {len(policies)} rows expected: {tables}")
    if any(record["status"] != "ok" for rows in records for record in rows):
        sys.exit(f"records that are not ok: {records}")
    if [record["backend"] for record in records[1]] != ["cuda"] * len(policies):
        sys.exit("the runs were not on the backend cuda")
    return differences("table", *tables) + differences("records", *records)


def main():
    # The comparison itself: it must be able to complain.
    assert differences("", {"ppl": "84.6246 ± 14.3906"}, {"ppl": "84.6247 ± 14.3906"}) == []
    assert differences("", {"ppl": "84.6246 ± 14.3906"}, {"ppl": "84.7246 ± 14.3906"}) != []
    assert differences("", [{"kept": 8}], [{"kept": 9}]) != []
    program, model = sys.argv[1:]
    found = [line for policies, *arguments in RUNS for line in compare(program, model, policies, arguments)]
    sys.exit("\n".join(found) if found else 0)


if __name__ == "__main__":
    main()
