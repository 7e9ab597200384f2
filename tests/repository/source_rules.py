"""Rules that the source tree keeps, checked over its files (tree.py says which).

Run one group with:  python3 tests/repository/source_rules.py IncludeDirection
Each rule is a function from a tree (path -> text) to a list of complaints; each has a self-test that
shows it complaining, so that a rule which sees nothing cannot pass unnoticed.
"""
import re
import sys
import unittest
from pathlib import Path

from tree import CODE_SUFFIXES, ROOT, code_files, source_files

# An include may only point to a lower level, or stay in its own folder.
LEVELS = [["core"], ["io", "text", "config", "kernels"], ["backend"], ["cache"], ["model", "policy"],
          ["engine"], ["dataset", "metric"], ["report"], ["task"], ["apps"]]
LEVEL_OF = {folder: level for level, folders in enumerate(LEVELS) for folder in folders}
SAME_LEVEL_EXCEPTIONS = {("text", "io"), ("config", "io")}

PRODUCT_FOLDERS = ("lib/", "apps/", "kernels/")
MAX_LINES = 350
MAX_FILE_BYTES = 1_000_000
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", ".clang-format", ".clang-tidy", ".gitignore",
             ".ci", "apps", "lib", "kernels", "configs", "datasets", "results", "tests"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def read_tree(paths):
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}


def code_of(tree, folders=PRODUCT_FOLDERS):
    return {path: text for path, text in tree.items()
            if path.startswith(folders) and Path(path).suffix in CODE_SUFFIXES}


def folder_of(path):
    """The name in LEVELS that a path belongs to: lib/io/x.hpp -> io, kernels/x.cu -> kernels."""
    parts = path.split("/")
    return parts[1] if parts[0] == "lib" else parts[0]


def include_complaints(tree):
    """`tree` holds all project headers too: an include that names none of them is not ours."""
    complaints = []
    for path, text in code_of(tree).items():
        source = folder_of(path)
        if source not in LEVEL_OF:
            complaints.append(f"{path}: folder '{source}' has no level")
            continue
        for mark, name in INCLUDE.findall(text):
            target_path = next((p for p in (f"lib/{name}", name) if p in tree), None)
            if target_path is None:
                if mark == '"':
                    complaints.append(f'{path}: "{name}" names no file of lib/ or of the project')
                continue
            if mark == "<":
                complaints.append(f"{path}: <{name}> is a project header, write it in quotes")
            target = folder_of(target_path)
            allowed = (target == source or (source, target) in SAME_LEVEL_EXCEPTIONS
                       or LEVEL_OF.get(target, len(LEVELS)) < LEVEL_OF[source])
            if not allowed:
                complaints.append(f"{path}: '{source}' (level {LEVEL_OF[source]}) includes {name} "
                                  f"('{target}', level {LEVEL_OF.get(target, 'none')})")
    return complaints


def kernel_complaints(tree):
    """Kernels know no JSON, and only launch.hpp launches."""
    complaints = []
    for path, text in code_of(tree, ("kernels/",)).items():
        if "nlohmann" in text:
            complaints.append(f"{path}: kernels know no JSON")
        if "<<<" in text:
            complaints.append(f"{path}: launch through kernels/common/launch.hpp, not with <<<>>>")
    return complaints


def opening_comment_complaints(tree):
    openings = {".cpp": "//", ".hpp": "//", ".cu": "//", ".cuh": "//", ".sh": "#", ".py": ('"""', "#!"), ".txt": "#"}
    complaints = []
    for path, text in tree.items():
        name = Path(path)
        opening = openings.get(name.suffix) if name.suffix != ".txt" or name.name == "CMakeLists.txt" else None
        if opening and not text.startswith(opening):
            complaints.append(f"{path}: does not begin with a comment that says what it is for")
    return complaints


def length_complaints(tree):
    return [f"{path}: {text.count(chr(10))} lines, at most {MAX_LINES}"
            for path, text in code_of(tree).items() if text.count("\n") > MAX_LINES]


def top_level_complaints(paths):
    return [f"{name}: not at the top level" for name in sorted({path.split("/")[0] for path in paths} - TOP_LEVEL)]


class RuleCase(unittest.TestCase):
    def expect_none(self, complaints):
        if complaints:
            self.fail("\n  " + "\n  ".join(complaints))


class IncludeDirection(RuleCase):
    def test_the_tree(self):
        tree = read_tree(code_files())
        self.assertGreater(len(code_of(tree)), 10)
        self.expect_none(include_complaints(tree))

    def complaints_about(self, path, include):
        headers = ["lib/core/error.hpp", "lib/io/json_file.hpp", "lib/text/tokenizer.hpp", "lib/model/family.hpp",
                   "lib/policy/policy.hpp", "lib/task/task.hpp", "lib/backend/cpu/rope.hpp", "lib/backend/backend.hpp",
                   "kernels/rmsnorm.hpp", "apps/kvbench/options.hpp"]
        return include_complaints({**dict.fromkeys(headers, ""), path: f"// x\n#include {include}\n"})

    def test_downward_and_own_folder_are_allowed(self):
        for path, include in [("lib/io/a.cpp", '"core/error.hpp"'), ("lib/backend/cpu/a.cpp", '"backend/backend.hpp"'),
                              ("lib/backend/a.cpp", '"backend/cpu/rope.hpp"'), ("lib/text/a.cpp", '"io/json_file.hpp"'),
                              ("apps/kvbench/a.cpp", '"task/task.hpp"'), ("lib/backend/a.cpp", '"kernels/rmsnorm.hpp"'),
                              ("lib/core/a.cpp", "<vector>"), ("lib/core/a.hpp", "<fmt/core.h>")]:
            self.assertEqual(self.complaints_about(path, include), [], (path, include))

    def test_upward_and_sideways_are_not(self):
        for path, include in [("lib/core/a.cpp", '"io/json_file.hpp"'), ("lib/model/a.cpp", '"policy/policy.hpp"'),
                              ("lib/io/a.hpp", '"text/tokenizer.hpp"'), ("kernels/a.cu", '"io/json_file.hpp"'),
                              ("lib/policy/a.cpp", '"task/task.hpp"'), ("lib/task/a.cpp", '"apps/kvbench/options.hpp"'),
                              ("lib/core/a.cpp", "<io/json_file.hpp>"), ("lib/cache/a.cpp", '  "model/family.hpp"')]:
            self.assertTrue(self.complaints_about(path, include), (path, include))

    def test_unknown_folders_and_files_are_not(self):
        self.assertTrue(self.complaints_about("lib/extra/a.cpp", "<vector>"))
        self.assertTrue(self.complaints_about("lib/core/a.cpp", '"error.hpp"'))


class Sources(RuleCase):
    def setUp(self):
        texts = CODE_SUFFIXES | {".py", ".sh", ".txt"}
        self.tree = read_tree(path for path in source_files()
                              if Path(path).suffix in texts and "/golden/" not in path)

    def test_each_file_begins_with_its_purpose(self):
        self.expect_none(opening_comment_complaints(self.tree))
        self.assertTrue(opening_comment_complaints({"lib/a.hpp": "#pragma once\n"}))
        self.assertTrue(opening_comment_complaints({"lib/CMakeLists.txt": "project(x)\n"}))

    def test_no_file_is_long(self):
        self.expect_none(length_complaints(self.tree))
        self.assertTrue(length_complaints({"lib/core/a.cpp": "//\n" * (MAX_LINES + 1)}))
        self.assertFalse(length_complaints({"tests/unit/a.cpp": "//\n" * (MAX_LINES + 1)}))

    def test_kernels_keep_to_themselves(self):
        self.expect_none(kernel_complaints(self.tree))
        self.assertTrue(kernel_complaints({"kernels/a.cu": "f<<<1, 1>>>();"}))
        self.assertTrue(kernel_complaints({"kernels/a.hpp": "#include <nlohmann/json.hpp>"}))


class Files(RuleCase):
    def test_none_is_large(self):
        self.expect_none([f"{path}: {size} bytes, at most {MAX_FILE_BYTES}" for path in source_files()
                          if (size := (ROOT / path).stat().st_size) > MAX_FILE_BYTES])

    def test_the_top_level_holds_the_known_names(self):
        self.expect_none(top_level_complaints(source_files()))
        self.assertTrue(top_level_complaints(["scripts/a.sh"]))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
