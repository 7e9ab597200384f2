#!/usr/bin/env bash
# Everything that needs a GPU, in under 8 minutes: build with nvcc, GPU tests, sanitizer over the kernel tests,
# kernel bandwidths against a measured copy, end-to-end figures. Writes one JSON file and ends with its path.
#   tests/gpu_check.sh [OUT_FOLDER]      default: build/gpu-check
# Steps that fail do not stop the later ones; the JSON says which did, and the exit status is 1 then.
set -uo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
OUT="${1:-$ROOT/build/gpu-check}"
BUILD="$ROOT/build/cuda-release"
export PATH="$PATH:/usr/local/cuda/bin"
mkdir -p "$OUT"
STEPS="$OUT/steps.jsonl"
: > "$STEPS"
FAILED=0

# step NAME LIMIT_S COMMAND...: runs it with a time limit; its output goes to OUT/NAME.log.
step() {
  local name="$1" limit="$2" begin end status
  shift 2
  printf '== %s\n' "$name"
  begin=$(date +%s)
  timeout "$limit" "$@" > "$OUT/$name.log" 2>&1
  status=$?
  end=$(date +%s)
  printf '{"step":"%s","seconds":%d,"status":%d}\n' "$name" $((end - begin)) "$status" >> "$STEPS"
  if [ "$status" -ne 0 ]; then
    FAILED=1
    printf '   failed (%d), the end of its output:\n' "$status"
    tail -15 "$OUT/$name.log"
  fi
}

command -v nvcc > /dev/null || { echo "no nvcc: this script needs the CUDA toolkit" >&2; exit 4; }
nvidia-smi -L || { echo "no GPU answers" >&2; exit 4; }

step configure 60 cmake -S "$ROOT" -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DKVBENCH_CUDA=ON
step build 240 cmake --build "$BUILD" --parallel "$(nproc)" --target kernel_tests cuda_session_tests kernel_bench
step kernel_tests 60 "$BUILD/bin/kernel_tests"
step session_tests 60 "$BUILD/bin/cuda_session_tests"
if command -v compute-sanitizer > /dev/null; then
  step memcheck 60 compute-sanitizer --tool memcheck --error-exitcode 9 "$BUILD/bin/kernel_tests" \
    --test-case='attention: lengths*,nll*,norm*,move_rows*,kv_append*'
  step racecheck 60 compute-sanitizer --tool racecheck --error-exitcode 9 "$BUILD/bin/kernel_tests" \
    --test-case='attention: groups*,nll: blocks*,norm:*'
fi
step kernel_bench 90 "$BUILD/bin/kernel_bench" "$OUT/kernel_bench.json"

python3 - "$OUT" <<'PYTHON'
import json
import pathlib
import subprocess
import sys

out = pathlib.Path(sys.argv[1])
query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"]
bench = out / "kernel_bench.json"
result = {
    "gpu": subprocess.run(query, capture_output=True, text=True).stdout.strip(),
    "steps": [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()],
    "figures": json.loads(bench.read_text()) if bench.exists() else None,
}
(out / "gpu_check.json").write_text(json.dumps(result, indent=1) + "\n")
PYTHON
printf '%s\n' "$OUT/gpu_check.json"
exit "$FAILED"
