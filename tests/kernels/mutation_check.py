"""Plants faults in copies of the CUDA kernels, one at a time, and shows that the kernel tests catch each.

    python3 tests/kernels/mutation_check.py BUILD_FOLDER [NAME...]

BUILD_FOLDER is a Ninja build of the CUDA emulation in which kernel_tests is built. A fault is a text that must
occur in its file exactly once, and what takes its place. The changed source is compiled with the build's own
command (without optimisation: only the verdict counts) and linked in front of the unchanged rest. A fault that
no test notices fails the check, and so does a test run that fails without any fault.
"""
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Fault:
    name: str
    file: str      # where the text stands
    text: str
    instead: str
    source: str    # the translation unit that sees it
    tests: str     # doctest filter: who should notice


FAULTS = [
    Fault("missing barrier between loading keys and reading them", "kernels/attention_decode.cu",
          "slot_of, key_tile);\n    }\n    __syncthreads();", "slot_of, key_tile);\n    }",
          "kernels/attention_decode.cu", "attention: every head size*"),
    Fault("missing barrier after the weights are used up", "kernels/attention_prefill.cu",
          "    __syncthreads();  // the values and weights are used up", "    ;",
          "kernels/attention_prefill.cu", "attention: lengths*"),
    Fault("barrier in a branch", "kernels/common/reduce.cuh",
          "  if (lane == 0) shared[warp] = value;\n  __syncthreads();\n  return warp_sum(",
          "  if (lane == 0) shared[warp] = value;\n  if (warp == 0) __syncthreads();\n  return warp_sum(",
          "kernels/norm.cu", "norm*"),
    Fault("missing barrier before values are read", "kernels/attention_prefill_mma.cu",
          "__syncthreads();  // the values are there, the keys are used up", "",
          "kernels/attention_prefill_mma.cu", "tensor cores: lengths*"),
    Fault("values read before their copies are waited for", "kernels/attention_prefill_mma.cu",
          "finish_copies();\n      __syncthreads();  // the values", "__syncthreads();  // the values",
          "kernels/attention_prefill_mma.cu", "tensor cores: lengths*"),
    Fault("keys as the transposed operand wants them", "kernels/attention_prefill_mma.cu",
          "keys + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8",
          "keys + lane % 16 * kStride + lane / 16 * 8",
          "kernels/attention_prefill_mma.cu", "tensor cores: lengths*"),
    Fault("tail off by one", "kernels/norm.cu",
          "i < p.width; i += kRowThreads) sum += x[i]", "i + 1 < p.width; i += kRowThreads) sum += x[i]",
          "kernels/norm.cu", "norm*"),
    Fault("tail of a tile off by one", "kernels/attention_prefill.cu",
          "min(kKeys, end - slot)", "min(kKeys - 1, end - slot)",
          "kernels/attention_prefill.cu", "attention: lengths*"),
    Fault("query heads mapped to the wrong KV heads", "kernels/common/attention_tile.cuh",
          "kv_head * group + static_cast<int>(index % group)", "static_cast<int>(index % group) + kv_head",
          "kernels/attention_prefill.cu", "attention: groups*"),
    Fault("no guard for queries that have seen nothing yet", "kernels/attention_prefill.cu",
          "highest == -INFINITY ? 0.0f : highest", "highest",
          "kernels/attention_prefill.cu", "attention: sinks*"),
    Fault("no guard for logits that are all -inf", "kernels/nll.cu",
          "maximum == -INFINITY ? 0.0f : maximum", "maximum",
          "kernels/nll.cu", "nll*"),
    Fault("rotation by half the head in place of half the rotary part", "kernels/common/rotate.cuh",
          "2 * i + 1 : i + half", "2 * i + 1 : i + width / 2",
          "kernels/kv_append.cu", "kv_append*"),
    Fault("sine with the wrong sign", "kernels/common/rotate.cuh",
          "b * cosine[i] + a * sine[i]", "b * cosine[i] - a * sine[i]",
          "kernels/attention_decode.cu", "attention: every head size*"),
    Fault("rows taken as dense that are not", "kernels/kv_append.cu",
          "token * p.stride", "token * p.n_kv_heads * p.head_dim",
          "kernels/kv_append.cu", "kv_append*"),
    Fault("splits combined without their maxima", "kernels/attention_decode.cu",
          "expf(partial[p.head_dim] - maximum)", "1.0f",
          "kernels/attention_decode.cu", "attention: lengths*"),
    Fault("one added to the denominator by every split", "kernels/attention_decode.cu",
          "p.off_by_one && blockIdx.x == 0", "p.off_by_one",
          "kernels/attention_decode.cu", "attention: one added*"),
    Fault("missing barrier between scales and codes", "kernels/quantise.cu",
          "    zeros[g] = to_float(group.zero);\n  }\n  __syncthreads();", "    zeros[g] = to_float(group.zero);\n  }",
          "kernels/quantise.cu", "quantise: codes*"),
    Fault("a group's last row read with the next group's scale", "kernels/common/coded_row.cuh",
          "rows.group_ends[middle] > row", "rows.group_ends[middle] > row + 1",
          "kernels/quantise.cu", "attention over quantised*"),
    Fault("rows written before all are read", "kernels/move_rows.cu",
          '  launch("gather_rows", gather_rows_kernel<Word>, shape, params);\n'
          '  launch("scatter_rows", scatter_rows_kernel<Word>, shape, params);',
          '  launch("scatter_rows", scatter_rows_kernel<Word>, shape, params);\n'
          '  launch("gather_rows", gather_rows_kernel<Word>, shape, params);',
          "kernels/move_rows.cu", "move_rows*"),
    Fault("less shared memory than the arrays need", "kernels/nll.cu",
          "shared_bytes(kWarps, sizeof(float)) + shared_bytes(kWarps, sizeof(double))",
          "shared_bytes(kWarps, sizeof(double))",
          "kernels/nll.cu", "nll*"),
    Fault("staging memory filled again too early", "lib/backend/cuda/staging.cpp",
          "if (halves_[current_].left) halves_[current_].passed.synchronize();", "",
          "lib/backend/cuda/staging.cpp", "staged*"),
    Fault("a host pointer given to a kernel", "lib/backend/cuda/cuda_backend.cpp",
          "block.on_device(staged), static_cast<std::int64_t>(ids.size())",
          "ids.data(), static_cast<std::int64_t>(ids.size())",
          "lib/backend/cuda/cuda_backend.cpp", "embed*"),
]


def run(command, folder, **options):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, **options)


def compile_command(build, source):
    """The build's command for the emulated version of a source, as a list."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if Path(entry["file"]) == ROOT / source and "kvbench_emulated_cuda" in entry["command"]:
            return shlex.split(entry["command"])
    sys.exit(f"mutation check: {build} does not compile {source}")


def link_command(build):
    listed = run(["ninja", "-t", "commands", "bin/kernel_tests"], build, check=True).stdout.splitlines()
    command = next(line for line in reversed(listed) if "-o bin/kernel_tests" in line)
    # Ninja wraps links as ": && LINK && POST-BUILD STEPS".
    return shlex.split(command.split("&&")[1])


def plant(fault, folder):
    text = (ROOT / fault.file).read_text()
    if text.count(fault.text) != 1:
        sys.exit(f"mutation check: '{fault.name}' expects its text once in {fault.file}, found {text.count(fault.text)}")
    for path in {fault.file, fault.source}:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text((ROOT / path).read_text())
    (folder / fault.file).write_text(text.replace(fault.text, fault.instead))


def verdict(build, number, fault):
    """'' when the tests caught the fault, else what went wrong."""
    folder = build / "mutants" / str(number)
    plant(fault, folder)
    command = compile_command(build, fault.source)
    twins = ROOT / "tests" / "cuda_emulation" / "include"
    place = command.index(f"-I{twins}") + 1
    command[place:place] = [f"-I{folder}", f"-I{folder}/lib"]
    command[command.index("-o") + 1] = str(folder / "fault.o")
    command[-1] = str(folder / fault.source)
    # No dependency file, whose name belongs to the real object.
    while "-MF" in command:
        del command[command.index("-MF"):command.index("-MF") + 2]
    while "-MT" in command:
        del command[command.index("-MT"):command.index("-MT") + 2]
    command = [word for word in command if word != "-MD"]
    compiled = run(command + ["-O0", "-Wno-error"], build)
    if compiled.returncode != 0:
        return f"does not compile:\n{compiled.stderr}"
    link = link_command(build)
    link[link.index("-o") + 1] = str(folder / "tests")
    first_archive = next(i for i, word in enumerate(link) if word.endswith(".a"))
    link.insert(first_archive, str(folder / "fault.o"))
    linked = run(link, build)
    if linked.returncode != 0:
        return f"does not link:\n{linked.stderr}"
    tests = run([str(folder / "tests"), f"--test-case={fault.tests}"], build, timeout=120)
    return "no test noticed it" if tests.returncode == 0 else ""


def main():
    build = Path(sys.argv[1]).resolve()
    names = sys.argv[2:]
    filters = ",".join(sorted({fault.tests for fault in FAULTS}))
    clean = run([str(build / "bin" / "kernel_tests"), f"--test-case={filters}"], build)
    if clean.returncode != 0:
        sys.exit(f"mutation check: the tests fail without any fault:\n{clean.stdout}")
    chosen = [(i, fault) for i, fault in enumerate(FAULTS) if not names or fault.name in names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda item: verdict(build, *item), chosen))
    for (_, fault), result in zip(chosen, results):
        print(f"{'caught' if not result else 'MISSED'}: {fault.name}{': ' + result if result else ''}")
    sys.exit(any(results))


if __name__ == "__main__":
    main()
