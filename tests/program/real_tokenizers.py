"""Published tokenizers against the libraries they were made with: `kvbench tokenize` must give the same ids for a
megabyte of novels and for text full of odd characters; 10 MB and a word of a million letters must not take long.

Usage: real_tokenizers.py PROGRAM. Files and libraries come from datasets/make_tokenizers.py; without them the check
is skipped (exit code 77).
"""
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "datasets"))
import cache  # noqa: E402
import make_tokenizers  # noqa: E402

SKIPPED = 77
TEXT_BYTES = 1_000_000
ODD_PIECES = 60_000
BIG_TEXTS = 10  # megabytes that one run of each kind of tokenizer must do in BIG_SECONDS
BIG_SECONDS = 10
# One of each kind; the others share their code.
TIMED = ("tekken-240911", "mistral-v3", "deepseek")


def novels():
    """The first bytes of all novels, whole characters."""
    texts = sorted((cache.cache_root() / "books" / "janeausten").glob("*.txt"))
    data = b"".join(path.read_bytes() for path in texts)[:TEXT_BYTES]
    return data.decode("utf-8", errors="ignore")


def odd_text():
    """Random characters of many scripts, among them runs, line ends, numbers, spelled-out special tokens and code."""
    generator = random.Random(5)
    planes = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE00),
              (0x2000, 0x2C00), (0x3040, 0x3100), (0x4E00, 0x5000), (0xAC00, 0xAD00), (0xFB00, 0xFB50),
              (0xFF00, 0xFFF0), (0x1D400, 0x1D500), (0x1F300, 0x1F700), (0x20000, 0x20100)]
    fixed = [" ", " ", " ", "  ", "\n", "\n\n", "\r\n", "\t", "'s", "'LL", "n't", "don\u2019t", "12345", "3.14", "0x1F", "()",
             "::", "====", "--", "...", "a" * 30, "e\u0301", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u00a0", "\u3000",
             "def f(x):\n    return x", "<s>", "[INST]", "http://a.b/c?d=e", "\u2581"]
    pieces = []
    while len(pieces) < ODD_PIECES:
        if generator.random() < 0.4:
            pieces.append(generator.choice(fixed))
            continue
        low, high = generator.choice(planes)
        for _ in range(generator.randint(1, 6)):
            character = chr(generator.randrange(low, high))
            # What Unicode has not assigned yet may be of another class in a newer library.
            if unicodedata.category(character) != "Cn":
                pieces.append(character)
    return "".join(pieces)


def reference_encoder(folder):
    """A function from text to ids, of the library that the file was written for."""
    if (folder / "tokenizer.json").exists():
        from tokenizers import Tokenizer
        library = Tokenizer.from_file(str(folder / "tokenizer.json"))
        library.encode_special_tokens = True
        return lambda text: library.encode(text, add_special_tokens=False).ids
    if (folder / "tokenizer.model").exists():
        from sentencepiece import SentencePieceProcessor
        return SentencePieceProcessor(model_file=str(folder / "tokenizer.model")).encode
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    library = Tekkenizer.from_file(folder / "tekken.json")
    return lambda text: library.encode(text, bos=False, eos=False)


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Program:
    def __init__(self, path, scratch):
        self.path = path
        self.scratch = Path(scratch) / "text"

    def encode(self, folder, text):
        """Ids and seconds of processor time, which other work on the machine does not change."""
        self.scratch.write_bytes(text.encode())
        begin = children_seconds()
        result = subprocess.run([self.path, "tokenize", "--model", folder, "--file", self.scratch, "--json"],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        seconds = children_seconds() - begin
        if result.returncode != 0:
            sys.exit(f"{folder.name}: {result.stderr.strip()}")
        return json.loads(result.stdout)["ids"], seconds


def compare(name, label, found, expected):
    if found == expected:
        return
    at = next((i for i, pair in enumerate(zip(found, expected)) if pair[0] != pair[1]), min(len(found), len(expected)))
    sys.exit(f"{name}: {label}: {len(found)} ids, the reference gives {len(expected)}; the first difference is at id {at}: "
             f"{found[at:at + 5]}, expected {expected[at:at + 5]}")


def check(program, folder, texts):
    reference = reference_encoder(folder)
    load_seconds = program.encode(folder, "")[1]
    counts, rates = [], []
    for label, text in texts.items():
        found, seconds = program.encode(folder, text)
        compare(folder.name, label, found, reference(text))
        counts.append(f"{len(found):,} ids of {label}")
        rates.append(len(text.encode()) / 1e6 / max(seconds - load_seconds, 1e-3))
    print(f"{folder.name}: {', '.join(counts)}: identical; {rates[0]:.1f} MB/s after {load_seconds:.2f} s of loading",
          flush=True)


def check_long(program, folder, text):
    seconds = program.encode(folder, text * BIG_TEXTS)[1]
    word_seconds = program.encode(folder, "a" * 1_000_000)[1]
    print(f"{folder.name}: {BIG_TEXTS} MB in {seconds:.1f} s, a word of 1,000,000 letters in {word_seconds:.1f} s", flush=True)
    if max(seconds, word_seconds) > BIG_SECONDS:
        sys.exit(f"{folder.name}: too slow: {BIG_SECONDS} s are allowed for each")


def main():
    files = cache.cache_root() / json.loads(make_tokenizers.MANIFEST.read_text(encoding="utf-8"))["path"]
    libraries = make_tokenizers.reference_folder()
    texts = {"novels": novels(), "odd text": odd_text()}
    for part in (files, libraries):
        if not part.is_dir() or not texts["novels"]:
            print(f"skipped: no {part}, or no novels; datasets/make_tokenizers.py and make_books.py make them")
            sys.exit(SKIPPED)
    sys.path.insert(0, str(libraries))
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    folders = sorted(path for path in files.iterdir() if path.is_dir())
    folders += [path for path in [cache.cache_root() / "models" / "smollm2-135m-instruct"] if path.is_dir()]
    with tempfile.TemporaryDirectory() as scratch:
        program = Program(sys.argv[1], scratch)
        for folder in folders:
            check(program, folder, texts)
        for folder in folders:
            if folder.name in TIMED:
                check_long(program, folder, texts["novels"])


if __name__ == "__main__":
    main()
