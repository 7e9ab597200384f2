"""README's table of model families is the one that the program prints.

Run with:  python3 tests/repository/family_table.py build/cpu-release/bin/kvbench
"""
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = sys.argv.pop() if len(sys.argv) > 1 else ROOT / "build/cpu-release/bin/kvbench"


class FamilyTable(unittest.TestCase):
    def test_readme_holds_the_table(self):
        table = subprocess.run([PROGRAM, "list", "--family-table"], capture_output=True, text=True,
                               check=True).stdout
        self.assertGreater(table.count("\n"), 10)
        self.assertIn("\n" + table, (ROOT / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
