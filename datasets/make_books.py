#!/usr/bin/env python3
"""Makes books/janeausten/*.txt in the cache: six novels, from Debian's package r-cran-janeaustenr.

`apt-get download` brings the package (nothing is installed), `dpkg-deb -x` unpacks it, and the
novels are read from its R lazy-load database without R. Every text is compared with the sha256 in
janeausten.json; a finished, intact folder is left as it is, without the network.

    datasets/make_books.py              # cache: $KVBENCH_CACHE, else ~/.cache/kvbench
"""
import bz2
import lzma
import struct
import sys
import zlib
from pathlib import Path

import cache


class RData:
    """Reader of R's XDR serialisation (R Internals, section 1.8), for the types that data files use."""

    NIL, SYMBOL, PAIRLIST, CHARS, LOGICAL, INTEGER, REAL = 254, 1, 2, 9, 10, 13, 14
    STRINGS, LIST, REFERENCE, PERSISTENT = 16, 19, 255, 247
    NA_LENGTH = -1

    def __init__(self, data):
        if data[:2] != b"X\n":
            raise cache.SetupError(f"R data begins with {data[:2]!r}, expected b'X\\n'")
        self.data, self.at, self.seen = data, 2, []
        version = self.integer()
        self.at += 8  # the version of R that wrote it, and the oldest one that reads it
        if version == 3:
            encoding_bytes = self.integer()
            self.at += encoding_bytes
        elif version != 2:
            raise cache.SetupError(f"R serialisation version {version}, expected 2 or 3")

    def integer(self):
        value = struct.unpack_from(">i", self.data, self.at)[0]
        self.at += 4
        return value

    def numbers(self, letter, width):
        count = self.integer()
        values = struct.unpack_from(f">{count}{letter}", self.data, self.at)
        self.at += width * count
        return list(values)

    def item(self):
        flags = self.integer()
        kind, has_attributes, has_tag = flags & 0xFF, flags & 0x200, flags & 0x400
        if kind == self.NIL:
            return None
        if kind == self.REFERENCE:
            return self.seen[(flags >> 8) - 1]
        if kind == self.SYMBOL:
            self.seen.append(self.item())
            return self.seen[-1]
        if kind == self.PAIRLIST:
            return self.pairlist(has_attributes, has_tag)
        if kind == self.PERSISTENT:
            self.integer()
            self.seen.append([self.item() for _ in range(self.integer())])
            return self.seen[-1]
        if kind == self.CHARS:
            return self.chars()
        return self.vector(kind, has_attributes)

    def pairlist(self, has_attributes, has_tag):
        if has_attributes:
            self.item()
        tag = self.item() if has_tag else None
        head, tail = self.item(), self.item()
        return {tag: head, **(tail or {})}

    def chars(self):
        length = self.integer()
        if length == self.NA_LENGTH:
            return None
        self.at += length
        return self.data[self.at - length:self.at].decode("utf-8")

    def vector(self, kind, has_attributes):
        if kind == self.STRINGS or kind == self.LIST:
            value = [self.item() for _ in range(self.integer())]
        elif kind == self.INTEGER or kind == self.LOGICAL:
            value = self.numbers("i", 4)
        elif kind == self.REAL:
            value = self.numbers("d", 8)
        else:
            raise cache.SetupError(f"R data of type {kind} at byte {self.at} is not read here")
        attributes = self.item() if has_attributes else {}
        if kind == self.LIST and attributes and "names" in attributes:
            return dict(zip(attributes["names"], value))
        return value


def inflate(block):
    """One block of an .rdb file: unpacked length, then zlib data, or a letter (2 bzip2, Z xz) and data."""
    length, packed = struct.unpack_from(">I", block)[0], block[4:]
    if packed[:1] == b"Z":
        raw_lzma2 = [{"id": lzma.FILTER_LZMA2, "preset": 6}]
        data = lzma.decompress(packed[1:], format=lzma.FORMAT_RAW, filters=raw_lzma2)
    elif packed[:1] == b"2":
        data = bz2.decompress(packed[1:])
    else:
        data = zlib.decompress(packed)
    if len(data) != length:
        raise cache.SetupError(f"R data block unpacks to {len(data)} bytes, expected {length}")
    return data


def read_lazy_load(base):
    """name -> value, from BASE.rdx (where each variable lies) and BASE.rdb (the blocks)."""
    index = RData(zlib.decompress(base.with_suffix(".rdx").read_bytes(), wbits=zlib.MAX_WBITS | 32)).item()
    blocks = base.with_suffix(".rdb").read_bytes()
    return {name: RData(inflate(blocks[offset:offset + length])).item()
            for name, (offset, length) in index["variables"].items()}


def make_books(work, out, manifest):
    source = manifest["source"]
    package = source["package"]
    print(f"{manifest['name']}: downloading Debian's {package} (1.6 MB)", flush=True)
    cache.run(["apt-get", "-q", "-o", "Acquire::Retries=5", "download", package],
              "run 'apt-get update' as root, then this again; or put the texts there by hand "
              "(datasets/README.md)", cwd=work)
    cache.run(["dpkg-deb", "-x", str(next(work.glob("*.deb"))), "unpacked"], "run this again", cwd=work)
    novels = read_lazy_load(work / "unpacked" / source["member"])
    for entry in manifest["files"]:
        variable = entry["name"].removesuffix(".txt")
        if variable not in novels:
            raise cache.SetupError(f"{package} has no text '{variable}', only {', '.join(sorted(novels))}")
        text = "".join(line + "\n" for line in novels[variable])
        (out / entry["name"]).write_bytes(text.encode())


def main(arguments):
    if arguments:
        raise cache.SetupError("usage: make_books.py (no arguments; the cache is $KVBENCH_CACHE)")
    cache.ensure(Path(__file__).resolve().parent / "janeausten.json", make_books)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (cache.SetupError, OSError, ValueError, LookupError, lzma.LZMAError, zlib.error, struct.error) as error:
        sys.exit(f"make_books: {error}")
