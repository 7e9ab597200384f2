#!/usr/bin/env bash
# Everything that needs a GPU, in under 8 minutes: build with nvcc, GPU tests, sanitizers over the kernel tests, kernel
# speeds against a measured copy and a measured matrix product, prefill and decoding of a random 7B-shaped checkpoint.
# Writes one JSON file and ends with its path.
#   tests/gpu_check.sh [--build FOLDER] [--emulated] [OUT_FOLDER]
#     --build FOLDER   a finished CUDA build, in place of making build/cuda-release
#     --emulated       FOLDER is a CPU build with the tests: the same steps on the emulated device, with tiny sizes.
#                      Shows that the script works; its figures mean nothing
#     OUT_FOLDER       default: build/gpu-check
# Steps that fail do not stop the later ones; the JSON says which did, and the exit status is 1 then. The time left
# bounds every step: those that find none are marked "no time".
set -uo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
OUT="$ROOT/build/gpu-check"
BUILD=""
DEVICE=gpu
while [ $# -gt 0 ]; do
  case "$1" in
    --build) BUILD="$(cd "$2" && pwd)" || exit 2; shift ;;
    --emulated) DEVICE=emulated ;;
    -*) echo "unknown argument '$1'; the script's head says what there is" >&2; exit 2 ;;
    *) OUT="$1" ;;
  esac
  shift
done
if [ "$DEVICE" = emulated ] && [ -z "$BUILD" ]; then
  echo "--emulated needs --build FOLDER" >&2
  exit 2
fi
export PATH="$PATH:/usr/local/cuda/bin"
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$OUT"
STEPS="$OUT/steps.jsonl"
: > "$STEPS"
rm -f "$OUT"/bench-*.json "$OUT"/kernel_bench.json
FAILED=0
BUDGET_S=470

note() {
  printf '{"step":"%s","seconds":%d,"status":%d,"verdict":"%s"}\n' "$@" >> "$STEPS"
  if [ "$4" != ok ]; then FAILED=1; fi
}

# step NAME LIMIT_S COMMAND...: runs it with a time limit; its output goes to OUT/NAME.log, that of a command that
# prints JSON to OUT/NAME.json.
step() {
  local name="$1" limit="$2" begin=$SECONDS status output
  shift 2
  printf '[%3d s] %s\n' "$SECONDS" "$name"
  if [ $((BUDGET_S - SECONDS)) -lt "$limit" ]; then limit=$((BUDGET_S - SECONDS)); fi
  if [ "$limit" -lt 3 ]; then
    note "$name" 0 0 "no time"
    return 1
  fi
  output="$OUT/$name.log"
  case "$name" in bench-*) output="$OUT/$name.json" ;; esac
  timeout "$limit" "$@" > "$output" 2> "$OUT/$name.err"
  status=$?
  if [ "$status" -eq 0 ]; then
    note "$name" $((SECONDS - begin)) 0 ok
    return
  fi
  note "$name" $((SECONDS - begin)) "$status" failed
  printf '   failed (%d), the end of its output:\n' "$status"
  tail -n 15 "$output" "$OUT/$name.err"
  return 1
}

sanitizer() {
  local tool="$1" tests="$2"
  if command -v compute-sanitizer > /dev/null; then
    step "$tool" 60 compute-sanitizer --tool "$tool" --error-exitcode 9 "$BUILD/bin/kernel_tests" --test-case="$tests"
  elif [ "$DEVICE" = gpu ]; then
    note "$tool" 0 127 "no compute-sanitizer"
  fi
}

if [ "$DEVICE" = gpu ]; then
  nvidia-smi -L || { echo "no GPU answers" >&2; exit 4; }
  PROGRAM=kvbench SHAPE=7b STEPS_DECODED=16
  # Prompt tokens and layers: at the deepest, a quarter of the layers says what all would, in a quarter of the time.
  DEPTHS=(4096:32 32768:32 131072:8) KEPT=1024 KIVI=kivi:bits=2,group=32,residual=128
  TESTS='*' BENCH_SIZE=()
  if [ -z "$BUILD" ]; then
    command -v nvcc > /dev/null || { echo "no nvcc: this script needs the CUDA toolkit" >&2; exit 4; }
    BUILD="$ROOT/build/cuda-release"
    step configure 60 cmake -S "$ROOT" -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DKVBENCH_CUDA=ON
    step build 240 cmake --build "$BUILD" --parallel "$(nproc)" --target kernel_tests cuda_session_tests kernel_bench kvbench
  fi
else
  PROGRAM=kvbench_emulated SHAPE=tiny DEPTHS=(56:2) STEPS_DECODED=2 KEPT=40 KIVI=kivi:bits=2,group=4,residual=8
  # CTest runs all of them in any case.
  TESTS='quantise*,kv_append*' BENCH_SIZE=(--small)
fi

step kernel_tests 60 "$BUILD/bin/kernel_tests" --test-case="$TESTS"
step session_tests 60 "$BUILD/bin/cuda_session_tests" --test-case="$([ "$DEVICE" = gpu ] && echo '*' || echo '*bf16*')"
sanitizer memcheck 'attention: lengths*,attention over quantised*,nll*,norm*,move_rows*,kv_append*,quantise*'
sanitizer racecheck 'attention: groups*,nll: blocks*,norm:*,quantise: codes*'
step kernel_bench 60 "$BUILD/bin/kernel_bench" "$OUT/kernel_bench.json" "${BENCH_SIZE[@]}"

# The shallow depths first: what they show is there when time runs out. One policy a run, so that a slow one costs no
# other its figures.
for entry in "${DEPTHS[@]}"; do
  depth="${entry%:*}" layers="${entry#*:}"
  model="$OUT/model-$SHAPE-$layers"
  if [ ! -f "$model/done" ]; then
    step "checkpoint-$layers" 60 python3 "$ROOT/tests/random_checkpoint.py" "$model" "$SHAPE" "$layers" && touch "$model/done"
  fi
  for policy in full "sink4+$((KEPT - 4))" "snapkv:capacity=$KEPT" kivi; do
    storage=(--kv same) eviction="$policy"
    if [ "$policy" = kivi ]; then storage=(--kv "$KIVI") eviction=full; fi
    step "bench-$depth-$layers-${policy%%[:+]*}" 60 "$BUILD/bin/$PROGRAM" bench --model "$model" --backend cuda --dtype bf16 \
      "${storage[@]}" --depths "$depth" --steps "$STEPS_DECODED" --repeats 1 --policy "$eviction" --quiet --json
  done
done

python3 - "$OUT" "$DEVICE" "$ROOT" <<'PYTHON' || FAILED=1
import json
import pathlib
import subprocess
import sys

out, device, root = pathlib.Path(sys.argv[1]), *sys.argv[2:]


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip().splitlines()[0]
    except (OSError, IndexError):
        return None


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def end_to_end():
    rows = []
    for path in sorted(out.glob("bench-*.json"), key=lambda p: (int(p.stem.split("-")[1]), p.stem)):
        _, depth, layers, policy = path.stem.split("-", 3)
        for record in read(path) or []:
            keys = ["status", "reason", "prefill_tokens_per_s", "first_token_ms", "decode_tokens_per_s", "decode_ms_p95",
                    "kv_bytes_live", "kv_bytes_peak", "weight_bytes"]
            rows.append({"depth": int(depth), "layers": int(layers), "policy": policy, **{key: record.get(key) for key in keys}})
    return rows


query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"]
steps = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
result = {
    "device": first_line(query) if device == "gpu" else "emulated: speeds mean nothing",
    "commit": first_line(["git", "-C", root, "rev-parse", "HEAD"]),
    "steps": steps,
    "kernels": read(out / "kernel_bench.json"),
    "end_to_end": end_to_end(),
}
(out / "gpu_check.json").write_text(json.dumps(result, indent=1) + "\n")
failed_rows = [row for row in result["end_to_end"] if row["status"] != "ok"]
for row in failed_rows:
    print(f"   {row['policy']} at {row['depth']}: {row['reason']}")
sys.exit(bool(failed_rows) or result["kernels"] is None or not result["end_to_end"])
PYTHON
printf '%s\n' "$OUT/gpu_check.json"
exit "$FAILED"
