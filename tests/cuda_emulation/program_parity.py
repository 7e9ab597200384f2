"""`kvbench ppl` on the emulated CUDA device prints the CPU backend's table.

    python3 tests/cuda_emulation/program_parity.py KVBENCH_EMULATED MODEL_FOLDER
"""
import json
import subprocess
import sys

POLICIES = ["full", "window8", "sink2+6", "recompute8"]
# What a run says about its machine and its speed.
MEASURED = {"tokens_per_s", "started_at", "peak_rss_bytes", "timings", "backend", "environment", "config_hash"}


def rows(program, model, backend, output):
    ids = ",".join(str((i * i * 7 + 3 * i + 1) % 32) for i in range(40))
    command = [program, "ppl", "--model", model, "--threads", "1", "--quiet", "--backend", backend, "--ids", ids, output]
    for policy in POLICIES:
        command += ["--policy", policy]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return done.stdout


def differences(path, cpu, cuda):
    """Lines that say where two records differ by more than rounding."""
    if isinstance(cpu, dict):
        if cpu.keys() != cuda.keys():
            return [f"{path}: keys {sorted(cpu)} and {sorted(cuda)}"]
        return [line for key in cpu if key not in MEASURED for line in differences(f"{path}.{key}", cpu[key], cuda[key])]
    if isinstance(cpu, list):
        if len(cpu) != len(cuda):
            return [f"{path}: {len(cpu)} and {len(cuda)} entries"]
        return [line for i, (a, b) in enumerate(zip(cpu, cuda)) for line in differences(f"{path}[{i}]", a, b)]
    if isinstance(cpu, float) and isinstance(cuda, (int, float)):
        return [] if abs(cpu - cuda) <= 1e-4 * max(1.0, abs(cpu)) else [f"{path}: {cpu} and {cuda}"]
    return [] if cpu == cuda else [f"{path}: {cpu} and {cuda}"]


def main():
    program, model = sys.argv[1:]
    cpu, cuda = (json.loads(rows(program, model, backend, "--json")) for backend in ("cpu", "cuda"))
    if len(cpu) != len(POLICIES) or not all(row["status"] == "ok" for row in cpu + cuda):
        sys.exit(f"rows: {cpu}\n{cuda}")
    found = differences("", cpu, cuda)
    sys.exit("\n".join(found) if found else 0)


if __name__ == "__main__":
    main()
