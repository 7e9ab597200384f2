"""Checks that every C++ and CUDA file is laid out as .clang-format says; names those that are not."""
import subprocess
import sys

from tree import ROOT, code_files


def main():
    paths = code_files()
    if not paths:
        sys.exit("clang-format: found no source files")
    checked = subprocess.run(["clang-format", "--dry-run", "--Werror", "--style=file", *paths], cwd=ROOT,
                             capture_output=True, text=True)
    if checked.returncode != 0:
        wrong = sorted({line.split(":")[0] for line in checked.stderr.splitlines() if ": error:" in line})
        sys.exit(checked.stderr[-2000:] if not wrong else
                 "clang-format: not laid out by .clang-format (clang-format -i mends it):\n  " + "\n  ".join(wrong))
    print(f"clang-format: {len(paths)} files")


if __name__ == "__main__":
    main()
