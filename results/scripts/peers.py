#!/usr/bin/env python3
"""kvbench beside transformers on this machine: the same work in turns, and the ratio of the medians.

Needs a Python with torch and transformers (pip install torch transformers); kvbench must be built. What is
compared, in each dtype: a forward over 2048 tokens with the loss of every token; decoding at depth 1024; and
streaming perplexity with 4 sinks and 1020 recent entries, for which the peer is a loop over tokens that cuts
its cache after every one (without turning its keys anew, so rather faster than the published loop).
Usage: peers.py [--rounds 3] [--out FILE] [--model FOLDER] [--text FILE] [--program FILE]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("KVBENCH_CACHE", pathlib.Path.home() / ".cache/kvbench"))
PREFILL, DEPTH, STEPS, SINKS, RECENT, STREAM = 2048, 1024, 32, 4, 1020, 4096
TORCH_TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Transformers:
    """One checkpoint in one dtype."""

    def __init__(self, folder, dtype, ids):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=TORCH_TYPES[dtype])
        self.model.eval()
        self.ids = torch.tensor([ids])

    def prefill(self):
        ids = self.ids[:, :PREFILL]
        start = time.perf_counter()
        logits = self.model(ids).logits[0, :-1].float()
        torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none")
        return PREFILL / (time.perf_counter() - start)

    def decode(self):
        cache = self.model(self.ids[:, :DEPTH], logits_to_keep=1).past_key_values
        start = time.perf_counter()
        for i in range(STEPS):
            self.model(self.ids[:, DEPTH + i:DEPTH + i + 1], past_key_values=cache)
        return STEPS / (time.perf_counter() - start)

    def stream(self):
        """Tokens per second once the cache is full."""
        cache = self.model(self.ids[:, :SINKS + RECENT], logits_to_keep=1).past_key_values
        start = time.perf_counter()
        for i in range(STEPS):
            at = SINKS + RECENT + i
            logits = self.model(self.ids[:, at:at + 1], past_key_values=cache).logits[0].float()
            torch.nn.functional.cross_entropy(logits, self.ids[0, at + 1:at + 2])
            for layer in cache.layers:
                layer.keys = torch.cat([layer.keys[:, :, :SINKS], layer.keys[:, :, -RECENT:]], dim=2)
                layer.values = torch.cat([layer.values[:, :, :SINKS], layer.values[:, :, -RECENT:]], dim=2)
        return STEPS / (time.perf_counter() - start)


class Kvbench:
    def __init__(self, program, folder, text, dtype):
        self.program = program
        self.common = ["--model", str(folder), "--dtype", dtype, "--json", "--quiet"]
        self.text = ["--data", str(text)]

    def run(self, *arguments):
        done = subprocess.run([self.program, *arguments, *self.common], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)[0]

    def prefill(self):
        return self.run("ppl", *self.text, "--tokens", str(PREFILL), "--policy", "full")["tokens_per_s"]

    def decode(self):
        return self.run("bench", "--depths", str(DEPTH), "--steps", str(STEPS), "--repeats", "1", "--policy",
                        "full")["decode_tokens_per_s"]

    def stream(self):
        return self.run("ppl", *self.text, "--tokens", str(STREAM), "--policy",
                        f"sink{SINKS}+{RECENT}")["tokens_per_s"]


def token_ids(program, folder, text):
    head = text.read_bytes()[:40000].decode("utf-8", errors="ignore")
    shown = subprocess.run([program, "tokenize", "--model", str(folder), "--text", head, "--json"],
                           capture_output=True, text=True, check=True)
    return json.loads(shown.stdout)["ids"]


def compare(dtype, arguments):
    ids = token_ids(arguments.program, arguments.model, arguments.text)
    peers = {"transformers": Transformers(arguments.model, dtype, ids),
             "kvbench": Kvbench(arguments.program, arguments.model, arguments.text, dtype)}
    rows = []
    for work in ("prefill", "decode", "stream"):
        rates = {name: [] for name in peers}
        for round_ in range(arguments.rounds + 1):
            for name, peer in peers.items():
                rate = getattr(peer, work)()
                if round_ > 0:  # the first round warms up
                    rates[name].append(rate)
        medians = {name: statistics.median(values) for name, values in rates.items()}
        ratios = sorted(ours / theirs for ours, theirs in zip(rates["kvbench"], rates["transformers"]))
        rows.append({"dtype": dtype, "work": work, "tokens_per_s": rates,
                     "ratio": medians["kvbench"] / medians["transformers"], "ratios": ratios})
        print(f"{dtype:5} {work:8} transformers {medians['transformers']:9.1f} tok/s   kvbench "
              f"{medians['kvbench']:9.1f} tok/s   {rows[-1]['ratio']:6.2f}x   "
              f"({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, default=CACHE / "models/smollm2-135m-instruct")
    parser.add_argument("--text", type=pathlib.Path, default=CACHE / "books/janeausten/emma.txt")
    parser.add_argument("--program", default=str(ROOT / "build/cpu-release/bin/kvbench"))
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    transformers.logging.set_verbosity_error()
    rows = []
    with torch.inference_mode():
        for dtype in ("f32", "bf16"):
            rows += compare(dtype, arguments)
    if arguments.out:
        peers = {"torch": torch.__version__, "transformers": transformers.__version__,
                 "threads": torch.get_num_threads()}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps({"peers": peers, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
