"""The HTML report in a real browser: nothing on its console, every chart that the data call for, in light, dark and
on paper. The screenshots stay in the folder that is named. Skipped (exit code 77) where there is no Chromium.

Run with:  python3 tests/program/report_page.py build/cpu-release/bin/kvbench build/cpu-release/report
"""
import collections
import hashlib
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/golden/tiny/llama"
BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
NASTY = "</script><script>document.body.dataset.injected = 'yes'</script><img src=x onerror=alert(1)>"
MAX_PAGE_BYTES = 6_000_000
DARK, LIGHT = 0, 1
PROGRAM = None
PICTURES = None


def browse(page, *options, scheme=LIGHT):
    """Standard output, and the lines that the page wrote to its console."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
             "--enable-logging=stderr", "--virtual-time-budget=3000", f"--blink-settings=preferredColorScheme={scheme}",
             "--window-size=1240,2600", *options, page.as_uri()],
            capture_output=True, text=True, errors="replace", timeout=90)
    return done.stdout, re.findall(r"CONSOLE.*", done.stderr)


def colours(png):
    """How often each colour stands in an 8-bit RGB or RGBA PNG."""
    data, place, packed = png.read_bytes(), 8, b""
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place:place + 8])
        content = data[place + 8:place + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour_type = struct.unpack(">IIBB", content[:10])
        if kind == b"IDAT":
            packed += content
        place += 12 + length
    size = {2: 3, 6: 4}[colour_type]
    raw, counts, above = zlib.decompress(packed), collections.Counter(), bytearray(width * size)
    for row in range(height):
        start = row * (width * size + 1)
        line = unfiltered(raw[start], bytearray(raw[start + 1:start + 1 + width * size]), above, size)
        counts.update(bytes(line[i:i + 3]) for i in range(0, len(line), size))
        above = line
    return counts


def unfiltered(kind, line, above, size):
    """One row of a PNG (section 9 of its specification)."""
    for i in range(len(line)):
        left = line[i - size] if i >= size else 0
        corner = above[i - size] if i >= size else 0
        if kind == 1:
            line[i] = (line[i] + left) & 255
        elif kind == 2:
            line[i] = (line[i] + above[i]) & 255
        elif kind == 3:
            line[i] = (line[i] + (left + above[i]) // 2) & 255
        elif kind == 4:
            guess = left + above[i] - corner
            distances = [(abs(guess - left), left), (abs(guess - above[i]), above[i]), (abs(guess - corner), corner)]
            line[i] = (line[i] + min(distances, key=lambda pair: pair[0])[1]) & 255
    return line


def make_results(folder, *policies):
    ids = ",".join(str((7 * i * i + 3 * i) % 32) for i in range(160))
    options = [word for policy in policies for word in ("--policy", policy)]
    subprocess.run([PROGRAM, "ppl", "--model", MODEL, "--ids", ids, "--threads", "1", "--quiet", "--out", folder, *options],
                   check=True, capture_output=True)


def write_nasty_result(folder):
    """One run all of whose texts are markup, beside matrices of layers and heads and of lengths and depths."""
    folder.mkdir()
    config = {"task": "hitrate", "policy_name": NASTY}
    row = {"task": "hitrate", "policy": NASTY, "status": "ok", "reason": None, "hit_rate": 0.5, "model": NASTY,
           "data": NASTY, "warnings": [NASTY], "environment": {"os": NASTY}, "started_at": NASTY, "schema_version": 1}
    details = {"heads": [{"hit_rate": [[0.0, 0.25], [None, 1.0]]}],
               "cells": [{"template": NASTY, "length": length, "depth": depth, "n": 4, "right": 3, "low": 0.3, "high": 0.9}
                         for length in (512, 1024) for depth in (0, 0.5, 1)]}
    name = hashlib.sha256(json.dumps(config, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    (folder / "index.jsonl").write_text(json.dumps({**row, "config_hash": name}) + "\n")
    (folder / f"{name}.json").write_text(json.dumps({**row, "config": config, "details": details}))


class ReportPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        folder = Path(cls.work.name)
        budgets = [policy for size in (8, 16, 32, 64) for policy in (f"window{size}", f"sink2+{size - 2}")]
        make_results(folder / "budgets", "full", *budgets)
        # Policies at one budget are ranked, and drawn as a group of their own: another protocol's settings.
        make_results(folder / "ranked", "full", "window8:evict=before", "knorm:capacity=8,timing=decode")
        write_nasty_result(folder / "nasty")
        PICTURES.mkdir(parents=True, exist_ok=True)
        cls.page = cls.report("report", folder / "budgets", folder / "nasty", "--title", NASTY)
        cls.ranked = cls.report("ranked", folder / "ranked")

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()

    @classmethod
    def report(cls, name, *arguments):
        page = PICTURES / f"{name}.html"
        subprocess.run([PROGRAM, "report", *arguments, "--out", page], check=True)
        return page

    def dom_of(self, page):
        dom, console = browse(page, "--dump-dom")
        self.assertEqual(console, [])
        return dom

    def charts_of(self, dom):
        body = re.search(r"<body[^>]*>", dom).group()
        self.assertIn('data-failed="0"', body)
        self.assertNotIn("data-injected", body)
        return int(re.search(r'data-charts="(\d+)"', body).group(1))

    def test_every_chart_is_drawn(self):
        dom = self.dom_of(self.page)
        # Perplexity, speed and cache by budget, two over the position; two heat maps.
        self.assertEqual(self.charts_of(dom), 7)
        self.assertEqual(dom.count("<canvas"), 5)
        self.assertEqual(len(re.findall(r"<figure", dom)), 7)
        # 2 x 2 heads and 2 x 3 cells, each with its own words for the mouse.
        self.assertIn("layer 1, head 1: 100 %", dom)
        self.assertIn("layer 1, head 0: no value", dom)
        self.assertIn("512 tokens, depth 50 %: 3 of 4, 95 %: 30 % to 90 %", dom)
        self.assertLess(self.page.stat().st_size, MAX_PAGE_BYTES)

    def test_policies_at_one_budget_are_ranked(self):
        dom = self.dom_of(self.ranked)
        self.assertEqual(self.charts_of(dom), 5)
        self.assertIn("Perplexity by policy", dom)

    def test_light_dark_and_paper(self):
        pictures = {}
        for name, scheme in (("light", LIGHT), ("dark", DARK)):
            picture = PICTURES / f"{name}.png"
            _, console = browse(self.page, f"--screenshot={picture}", scheme=scheme)
            self.assertEqual(console, [])
            pictures[name] = colours(picture)
        # The page's background, and the line of a policy: both in the colours of the scheme.
        for name, page, window in (("light", "f6f6f4", "c8452f"), ("dark", "121417", "ff8a70")):
            self.assertGreater(pictures[name][bytes.fromhex(page)], 10000, name)
            self.assertGreater(pictures[name][bytes.fromhex(window)], 300, name)
        paper = PICTURES / "report.pdf"
        _, console = browse(self.page, f"--print-to-pdf={paper}", scheme=DARK)
        self.assertEqual(console, [])
        self.assertGreater(paper.stat().st_size, 20000)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    if len(sys.argv) < 3:
        sys.exit("usage: report_page.py PATH_TO_KVBENCH FOLDER_OF_PICTURES [TEST...]")
    if BROWSER is None:
        print("no Chromium (Debian: chromium): skipped")
        sys.exit(77)
    PROGRAM, PICTURES = Path(sys.argv.pop(1)).absolute(), Path(sys.argv.pop(1)).absolute()
    unittest.main()
