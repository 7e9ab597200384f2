#!/usr/bin/env python3
"""Makes tests/golden/tokenizers/tekken_like: a small tekken.json, and what the reference package
makes of texts and ids with it.

Run by hand, in a virtual environment with mistral-common==1.13.1:
    python tests/golden/make_small_tekken.py
"""

import base64
import collections
import json
import pathlib
import random

import regex
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "tokenizers" / "tekken_like"
PATTERN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
           r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
           r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# Words of these make the merges. Runs of one letter have many ways to the same token.
TRAINING = ("It is a truth universally acknowledged, that a single man in possession of a good "
            "fortune, must be in want of a wife. The quick brown fox jumps over the lazy dog. "
            "aaa aaaaa aaaaaaa bananana anananas  \n\n    \r\n\r\n日本語 日本 ...!!! caf\u00e9 \U0001f642 ") * 3
N_TOKENS, N_SPARE, N_SPECIALS = 380, 20, 30


def train(count):
    """Tokens by rank: the bytes, then the most frequent pair again and again."""
    tokens = [bytes([i]) for i in range(256)]
    known = set(tokens)
    words = [[bytes([b]) for b in word.encode()] for word in regex.findall(PATTERN, TRAINING)]
    while len(tokens) < count:
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        pair = min(pairs, key=lambda p: (-pairs[p], p))
        token = pair[0] + pair[1]
        if token not in known:
            tokens.append(token)
            known.add(token)
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == pair:
                    word[i:i + 2] = [token]
                i += 1
    return tokens


def text_or_null(token):
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


def write_tekken():
    vocab = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": text_or_null(token)}
             for rank, token in enumerate(train(N_TOKENS + N_SPARE))]
    config = {"pattern": PATTERN, "num_vocab_tokens": len(vocab), "default_vocab_size": N_TOKENS + N_SPECIALS,
              "default_num_special_tokens": N_SPECIALS, "version": "v3"}
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(entry) for entry in vocab)
    (FOLDER / "tekken.json").write_text(f'{{"config": {json.dumps(config)},\n"vocab": [\n{lines}\n]}}\n')


def texts():
    strings = json.loads((HERE / "tokenizers" / "expected.json").read_text())["strings"]
    yield from strings.values()
    yield TRAINING[:330]
    yield from ("a" * n for n in (4, 6, 8, 9, 17, 64, 65, 130))
    generator = random.Random(1)
    alphabet = "aab n\n\u00e9\u0301日本語,.7 "
    for _ in range(60):
        yield "".join(generator.choice(alphabet) for _ in range(generator.randint(1, 60)))


def id_lists(n_ids):
    generator = random.Random(2)
    for _ in range(40):
        limit = generator.choice([n_ids, n_ids, N_SPECIALS + 256])
        yield [generator.randrange(limit) for _ in range(generator.randint(1, 12))]


def main():
    write_tekken()
    reference = Tekkenizer.from_file(FOLDER / "tekken.json")
    encoded = [[text, reference.encode(text, False, False)] for text in texts()]
    decoded = [[ids, reference.decode(ids, SpecialTokenPolicy.KEEP), reference.decode(ids, SpecialTokenPolicy.IGNORE)]
               for ids in id_lists(reference.n_words)]
    parts = [f'"_about": "mistral-common 1.13.1; written by make_small_tekken.py. decode: ids, text with and without special tokens"',
             f'"n_ids": {reference.n_words}, "bos": {reference.bos_id}, "eos": {reference.eos_id}']
    for key, rows in (("encode", encoded), ("decode", decoded)):
        parts.append(f'"{key}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "]")
    (HERE / "tokenizers" / "tekken.json").write_text("{" + ",\n".join(parts) + "}\n")


if __name__ == "__main__":
    main()
