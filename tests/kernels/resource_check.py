"""Registers, stack, spills and static shared memory of every CUDA kernel, held against a committed table.

    python3 tests/kernels/resource_check.py BUILD_FOLDER [--write]

BUILD_FOLDER has kvbench_kernels built; kernels/record_usage.py left ptxas' report beside each object. All rows are
printed. The table (resource_usage.txt) names the compiler that made it; under that compiler every row must be as in
the table, and no kernel may spill. Another compiler allots registers differently: its rows are only printed.
--write makes the table anew, for a change that is meant; it refuses spills.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).with_name("resource_usage.txt")
COLUMNS = "kernel | architecture | registers | stack bytes | spilled bytes | static shared bytes"
KERNEL = re.compile(r"Compiling entry function '(\S+)' for '(sm_\d+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def parse(reports):
    """{(symbol, architecture): (registers, stack bytes, spilled bytes, static shared bytes)} of ptxas' texts."""
    found = {}
    for report in reports:
        key = spills = None
        for line in report.splitlines():
            if match := KERNEL.search(line):
                key = match.groups()
            elif match := SPILLS.search(line):
                spills = [int(n) for n in match.groups()]
            elif key and spills and (match := REGISTERS.search(line)):
                shared = SHARED.search(line)
                found[key] = (int(match.group(1)), spills[0], spills[1] + spills[2],
                              int(shared.group(1)) if shared else 0)
                key = spills = None
    return found


def readable(symbols):
    """Kernel names as a person writes them: attention_decode_kernel<float, 64>."""
    text = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout
    names = []
    for line in text.splitlines():
        name = re.sub(r"^void ", "", line.replace("kvbench::", "").replace("(anonymous namespace)::", ""))
        names.append(name.rpartition("(")[0])
    return names


def usage(build):
    """{"kernel | sm_80": numbers}"""
    found = parse(report.read_text() for report in sorted((build / "kernels").rglob("*.usage")))
    names = readable([symbol for symbol, _ in found])
    return {f"{name} | {arch}": value for name, ((_, arch), value) in zip(names, found.items())}


def compiler():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release [\d.]+, V([\d.]+)", text).group(1)


def rows(found):
    return [" | ".join([name, *map(str, value)]) for name, value in sorted(found.items())]


def read(text):
    """(compiler, {"kernel | sm_80": numbers})"""
    lines = text.splitlines()
    split = [line.split(" | ") for line in lines[2:]]
    return lines[0].split()[1], {" | ".join(row[:2]): tuple(map(int, row[2:])) for row in split}


def complaints(found, version, table, table_version):
    if version != table_version:
        return []
    lines = [f"{name}: spills {value[2]} bytes" for name, value in sorted(found.items()) if value[2] > 0]
    lines += [f"{name}: not in the table" for name in sorted(found.keys() - table.keys())]
    lines += [f"{name}: in the table, but not built" for name in sorted(table.keys() - found.keys())]
    lines += [f"{name}: {' | '.join(map(str, found[name]))}, the table has {' | '.join(map(str, table[name]))}"
              for name in sorted(found.keys() & table.keys()) if found[name] != table[name]]
    return lines


def main():
    build = Path(sys.argv[1])
    found = usage(build)
    if not found:
        sys.exit(f"no reports under {build}/kernels: build kvbench_kernels first")
    version = compiler()
    print("\n".join([f"nvcc {version}", COLUMNS, *rows(found)]))
    if "--write" in sys.argv:
        if spilled := complaints(found, version, found, version):
            sys.exit("\n".join(spilled))
        TABLE.write_text("\n".join([f"nvcc {version}", COLUMNS, *rows(found)]) + "\n")
        return
    table_version, table = read(TABLE.read_text())
    if version != table_version:
        print(f"the table was made by nvcc {table_version}: nothing compared")
    if lines := complaints(found, version, table, table_version):
        sys.exit("\n".join([*lines, f"if that is meant: {sys.argv[0]} {build} --write"]))


if __name__ == "__main__":
    main()
