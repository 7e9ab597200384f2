#!/usr/bin/env python3
"""kvbench beside its peers on this machine: the same work in turns, and the ratio of the medians.

Needs a Python with torch and transformers; llama-cpp-python with gguf, and kvpress, are compared too where they
are installed. kvbench must be built. What is compared, in each dtype:
  prefill   2048 tokens with the loss of every one (llama.cpp: with the logits of the last one alone)
  decode    batch 1, after 1024 tokens
  stream    perplexity with 4 sinks and 1020 recent entries. `published` is the published loop: one token a time, keys
            stored without rotation and turned anew at every step; `transformers` leaves the turning out, and is faster
  snapkv    decoding after 4096 tokens of which SnapKV kept 1024 (kvpress)
Usage: peers.py [--rounds 3] [--out FILE] [--model FOLDER] [--text FILE] [--program FILE]
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
from importlib import metadata

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("KVBENCH_CACHE", pathlib.Path.home() / ".cache/kvbench"))
PREFILL, DEPTH, STEPS, SINKS, RECENT, STREAM, LONG, KEPT = 2048, 1024, 32, 4, 1020, 8192, 4096, 1024


class Kvbench:
    def __init__(self, arguments, dtype, _):
        self.program = arguments.program
        self.common = ["--model", str(arguments.model), "--dtype", dtype, "--json", "--quiet"]
        self.text = ["--data", str(arguments.text)]

    def run(self, *arguments):
        done = subprocess.run([self.program, *arguments, *self.common], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)[0]

    def bench(self, depth, policy):
        return self.run("bench", "--depths", str(depth), "--steps", str(STEPS), "--repeats", "1", "--policy",
                        policy)["decode_tokens_per_s"]

    def prefill(self):
        return self.run("ppl", *self.text, "--tokens", str(PREFILL), "--policy", "full")["tokens_per_s"]

    def decode(self):
        return self.bench(DEPTH, "full")

    def stream(self):
        return self.run("ppl", *self.text, "--tokens", str(STREAM), "--policy",
                        f"sink{SINKS}+{RECENT}")["tokens_per_s"]

    def snapkv(self):
        return self.bench(LONG, f"snapkv:capacity={KEPT}")


def peers_of(work):
    """Names and makers of those that do `work`, kvbench last."""
    from peers_torch import KvPress, Published, Transformers
    found = {"prefill": {"transformers": Transformers}, "decode": {"transformers": Transformers},
             "stream": {"published": Published, "transformers": Transformers}, "snapkv": {}}[work]
    if work in ("prefill", "decode") and importlib.util.find_spec("llama_cpp"):
        from peers_llama_cpp import LlamaCpp
        found["llama.cpp"] = LlamaCpp
    if work == "snapkv" and importlib.util.find_spec("kvpress"):
        found["kvpress"] = KvPress
    return {**found, "kvbench": Kvbench} if found else {}


def token_ids(arguments):
    head = arguments.text.read_bytes()[:40000].decode("utf-8", errors="ignore")
    shown = subprocess.run([arguments.program, "tokenize", "--model", str(arguments.model), "--text", head, "--json"],
                           capture_output=True, text=True, check=True)
    return json.loads(shown.stdout)["ids"]


def compare(dtype, work, ids, arguments):
    """One row per peer: its rates, kvbench's in the same rounds, and their ratios."""
    peers = {name: make(arguments, dtype, ids) for name, make in peers_of(work).items()}
    rates = {name: [] for name in peers}
    for round_ in range(arguments.rounds + 1):
        for name, peer in peers.items():
            rate = getattr(peer, work)()
            if round_ > 0:  # the first round warms up
                rates[name].append(rate)
    ours = rates.pop("kvbench", [])
    rows = []
    for name, theirs in rates.items():
        ratios = sorted(a / b for a, b in zip(ours, theirs))
        row = {"dtype": dtype, "work": work, "peer": name, "peer_tokens_per_s": statistics.median(theirs),
               "kvbench_tokens_per_s": statistics.median(ours), "ratio": statistics.median(ratios),
               "ratios": [round(r, 3) for r in ratios]}
        rows.append(row)
        print(f"{dtype:5} {work:8} {name:12} {row['peer_tokens_per_s']:9.1f} tok/s   kvbench "
              f"{row['kvbench_tokens_per_s']:9.1f} tok/s   {row['ratio']:6.2f}x   ({ratios[0]:.2f} to {ratios[-1]:.2f})",
              flush=True)
    return rows


def versions():
    found = {}
    for package in ("torch", "transformers", "llama-cpp-python", "kvpress"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", nargs="+", default=["prefill", "decode", "stream", "snapkv"])
    parser.add_argument("--dtype", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, default=CACHE / "models/smollm2-135m-instruct")
    parser.add_argument("--text", type=pathlib.Path, default=CACHE / "books/janeausten/emma.txt")
    parser.add_argument("--program", default=str(ROOT / "build/cpu-release/bin/kvbench"))
    arguments = parser.parse_args()
    ids = token_ids(arguments)
    rows = [row for dtype in arguments.dtype for work in arguments.work for row in compare(dtype, work, ids, arguments)]
    if arguments.out:
        machine = {"cpus": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps({"peers": versions(), "machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
