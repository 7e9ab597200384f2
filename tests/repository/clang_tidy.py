"""Runs clang-tidy over the sources of lib/ and apps/, two at a time; a file that passed is not run again.

    python3 tests/repository/clang_tidy.py BUILD_FOLDER

BUILD_FOLDER is configured and built: its compile_commands.json gives the commands, its ninja log each
source's headers. A pass is remembered under $KVBENCH_CACHE/clang-tidy by a hash over everything that
the verdict depends on: the tool's version, .clang-tidy, the command, and the source and its headers.
"""
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tree import ROOT

CHECKED_FOLDERS = ("lib/", "apps/")
# The analyzer's shallow mode inlines small functions only: a third of the time, on headers such as json.hpp.
COMMAND = ["clang-tidy", "--quiet", "--extra-arg=-Xclang", "--extra-arg=-analyzer-config", "--extra-arg=-Xclang",
           "--extra-arg=mode=shallow"]


def dependencies(build):
    """object file -> the files that it was compiled from, as ninja recorded them."""
    listed = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True, check=True)
    found, current = {}, None
    for line in listed.stdout.splitlines():
        if line.startswith("    "):
            found[current].append(line.strip())
        elif ": #deps" in line:
            current = line.split(":")[0]
            found[current] = []
    return found


def content_key(command, paths, tool):
    """Own files count by content, system headers by path and size."""
    digest = hashlib.sha256(tool.encode())
    digest.update(command.replace(str(ROOT), "").encode())
    for path in sorted(paths):
        digest.update(path.replace(str(ROOT), "").encode())
        if path.startswith(str(ROOT)):
            digest.update(Path(path).read_bytes())
        elif os.path.exists(path):
            digest.update(str(os.path.getsize(path)).encode())
    return digest.hexdigest()


def jobs_of(build, tool):
    """(source path, key) for each source of the checked folders that the build has compiled."""
    deps = dependencies(build)
    jobs = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = os.path.relpath(entry["file"], ROOT)
        if not path.startswith(CHECKED_FOLDERS) or path in jobs:
            continue
        words = shlex.split(entry["command"])
        compiled = [os.path.normpath(build / p) for p in deps.get(words[words.index("-o") + 1], [])]
        if not compiled:
            sys.exit(f"clang-tidy: {path} is not built in {build}: build it first")
        jobs[path] = content_key(entry["command"], compiled, tool)
    return sorted(jobs.items())


def check(build, stamps, job):
    path, key = job
    began = time.monotonic()
    done = subprocess.run([*COMMAND, "-p", str(build), path], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True)
    print(f"  {time.monotonic() - began:5.1f} s  {path}{'' if done.returncode == 0 else '  FAULTS'}", flush=True)
    if done.returncode != 0:
        return f"{done.stdout}{done.stderr}"
    (stamps / key).touch()
    return None


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: clang_tidy.py BUILD_FOLDER")
    build = Path(sys.argv[1]).resolve()
    cache = Path(os.environ.get("KVBENCH_CACHE") or Path.home() / ".cache" / "kvbench")
    stamps = cache.absolute() / "clang-tidy"
    stamps.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    jobs = jobs_of(build, "\n".join([version, *COMMAND, (ROOT / ".clang-tidy").read_text()]))
    if not jobs:
        sys.exit(f"clang-tidy: {build} compiles no source of {' or '.join(CHECKED_FOLDERS)}")
    new = [job for job in jobs if not (stamps / job[1]).exists()]
    print(f"clang-tidy: {len(jobs)} sources, {len(new)} of them new or changed", flush=True)
    with ThreadPoolExecutor(max_workers=2) as pool:
        faults = [said for said in pool.map(lambda job: check(build, stamps, job), new) if said]
    if faults:
        sys.exit("\n".join(faults) + f"\nclang-tidy: faults in {len(faults)} of {len(new)} sources")


if __name__ == "__main__":
    main()
