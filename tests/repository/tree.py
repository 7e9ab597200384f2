"""Which files make up the source tree. Used by the checks beside it. Standard library only."""
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE_SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh"}


def source_files():
    """Paths relative to the root: what git tracks or would, if added; without git, all but build output."""
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others",
           "--exclude-standard"]
    try:
        listed = subprocess.run(git, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        skipped = {".git", "build", "results", "__pycache__"}
        listed = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*")
                  if not skipped & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in listed if path and (ROOT / path).is_file())


def code_files():
    return [path for path in source_files() if Path(path).suffix in CODE_SUFFIXES]
