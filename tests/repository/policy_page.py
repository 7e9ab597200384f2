"""lib/policy/README.md says what the program says of its policies, and its example is the one that is compiled.

Run with:  python3 tests/repository/policy_page.py build/cpu-release/bin/kvbench
"""
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "lib/policy/README.md"
EXAMPLE = ROOT / "tests/unit/policy/example_policy.cpp"
PROGRAM = None


class PolicyPage(unittest.TestCase):
    def test_table_is_that_of_the_program(self):
        printed = subprocess.run([PROGRAM, "list", "--policy-table"], capture_output=True, text=True, check=True).stdout
        self.assertIn("| `full` |", printed)
        self.assertIn(printed, PAGE.read_text(), "print the table anew with: kvbench list --policy-table")

    def test_example_is_the_one_that_is_compiled(self):
        self.assertIn("```cpp\n" + EXAMPLE.read_text() + "```\n", PAGE.read_text())
        self.assertLessEqual(len(EXAMPLE.read_text().splitlines()), 42)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop()
    unittest.main()
