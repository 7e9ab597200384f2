"""Launcher for nvcc: runs the compile command and keeps ptxas' report of registers and memory beside the object.

    python3 kernels/record_usage.py nvcc ARGUMENTS -c SOURCE -o OBJECT

The report goes to OBJECT.usage; everything else that nvcc prints is passed on. tests/kernels/resource_check.py
holds the reports against the committed table.
"""
import subprocess
import sys

command = sys.argv[1:]
compiled = subprocess.run(command + ["-Xptxas=-v"], stderr=subprocess.PIPE, text=True)
report, other, lines = [], [], compiled.stderr.splitlines()
for line in lines:
    about_usage = line.startswith("ptxas info") or "bytes stack frame" in line
    (report if about_usage else other).append(line)
if other:
    print("\n".join(other), file=sys.stderr)
if compiled.returncode == 0 and "-o" in command:
    with open(command[command.index("-o") + 1] + ".usage", "w", encoding="utf-8") as file:
        file.write("\n".join(report) + "\n")
sys.exit(compiled.returncode)
