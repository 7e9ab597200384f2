"""The cache folder that models and books are kept in, and how a folder gets there whole or not at all.

Used by the make_*.py scripts beside it. Standard library only.
"""
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


class SetupError(Exception):
    """One line: what failed and what to do about it."""


def cache_root():
    return Path(os.environ.get("KVBENCH_CACHE") or Path.home() / ".cache" / "kvbench").absolute()


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def first_difference(folder, manifest):
    """None when every file of the manifest lies in `folder`, intact; else one phrase."""
    for entry in manifest["files"]:
        path = folder / entry["name"]
        if not path.is_file():
            return f"{entry['name']} is missing"
        if path.stat().st_size != entry["bytes"]:
            return f"{entry['name']} has {path.stat().st_size} bytes, expected {entry['bytes']}"
        found = sha256_of(path)
        if found != entry["sha256"]:
            return f"{entry['name']} has sha256 {found}, expected {entry['sha256']}"
    return None


def ensure(manifest_path, make):
    """Leaves the folder of a manifest complete: an intact one stays as it is; else `make(work, out, manifest)`
    fills the empty folder `out` (scratch files go to `work`), which then takes the target's place."""
    manifest = json.loads(manifest_path.read_text(encoding="utf-8"))
    target = cache_root() / manifest["path"]
    if target.is_dir():
        difference = first_difference(target, manifest)
        if difference is None:
            print(f"{manifest['name']}: {target} is complete", flush=True)
            return
        print(f"{manifest['name']}: {difference} in {target}: making it anew", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
    try:
        out = work / "out"
        out.mkdir()
        make(work, out, manifest)
        difference = first_difference(out, manifest)
        if difference:
            raise SetupError(f"the new {target.name} differs from {manifest_path.name}: {difference}")
        shutil.rmtree(target, ignore_errors=True)
        os.rename(out, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{manifest['name']}: wrote {target}", flush=True)


def run(command, advice, cwd=None):
    """Runs a command; its output is shown only when it fails, and then its last line leads."""
    result = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace")
    if result.returncode != 0:
        said = (result.stdout.strip().splitlines() or ["it said nothing"])[-1]
        shown = " ".join(str(part) for part in command)
        raise SetupError(f"'{shown}' failed ({said}): {advice}")
