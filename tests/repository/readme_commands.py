"""The commands that the README files show exist: scripts, presets, subcommands and their options.

Run with:  python3 tests/repository/readme_commands.py build/cpu-release/bin/kvbench
"""
import json
import os
import re
import shlex
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Programs that a reader has or is told to get; everything else must be the project's own.
OUTSIDE = {"cd", "cp", "mkdir", "git", "hf", "python3", "wget", "apt-get", "ctest", "jq", "export"}
PROGRAM = None


def shown_commands(text):
    """Token lists of the commands in ```sh blocks; a backslash at the end of a line joins two lines."""
    commands = []
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            without_comment = re.sub(r"(^|\s)#.*", "", line)
            for part in re.split(r"&&|\||;", without_comment):
                tokens = shlex.split(part)
                while tokens and (tokens[0] in ("sudo", "time") or re.fullmatch(r"\w+=.*", tokens[0])):
                    tokens.pop(0)
                if tokens:
                    commands.append(tokens)
    return commands


def preset_complaint(tokens):
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    kind = "buildPresets" if "--build" in tokens else "configurePresets"
    name = tokens[tokens.index("--preset") + 1] if "--preset" in tokens else None
    return None if name in {p["name"] for p in presets[kind]} else f"no {kind} named {name}"


def program_complaint(tokens, help_of):
    words = [token for token in tokens[1:] if not token.startswith("-")]
    if len(tokens) == 1 or tokens[1].startswith("-"):
        subcommand = []
    else:
        subcommand = words[:1]
    text = help_of(subcommand)
    if text is None:
        return f"kvbench has no subcommand '{' '.join(subcommand)}'"
    for option in tokens[1:]:
        name = option.split("=")[0]
        if name.startswith("--") and not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
            return f"'kvbench {' '.join(subcommand)}' has no option {name}"
    return None


def complaint(tokens, help_of):
    command = tokens[0]
    if command.split("/")[-1] == "kvbench":
        return program_complaint(tokens, help_of)
    if command == "cmake":
        return preset_complaint(tokens)
    if "/" in command:
        path = ROOT / command
        return None if path.is_file() and os.access(path, os.X_OK) else f"{command} is no executable file"
    return None if command in OUTSIDE else f"'{command}' is neither the project's nor a known tool"


def program_help(subcommand):
    shown = subprocess.run([PROGRAM, *subcommand, "--help"], capture_output=True, text=True)
    return shown.stdout if shown.returncode == 0 else None


class ReadmeCommands(unittest.TestCase):
    def test_every_command_exists(self):
        for readme in sorted({ROOT / "README.md", *ROOT.glob("*/README.md")}):
            for tokens in shown_commands(readme.read_text(encoding="utf-8")):
                with self.subTest(readme=str(readme.relative_to(ROOT)), command=" ".join(tokens)):
                    self.assertIsNone(complaint(tokens, program_help))

    def test_the_readme_shows_the_two_commands_and_the_program(self):
        first = [tokens[0] for tokens in shown_commands((ROOT / "README.md").read_text(encoding="utf-8"))]
        self.assertEqual(first[:2], ["datasets/setup.sh", "tests/run.sh"])
        self.assertTrue(any(command.endswith("/kvbench") for command in first))

    def test_the_check_complains(self):
        def help_of(subcommand):
            return {(): "list ppl", ("ppl",): "--policy TEXT  --dtype"}.get(tuple(subcommand))

        text = "```sh\nsudo A=1 datasets/none.sh  # why\nkvbench ppl --policy full \\\n  --dtyp f32\n```\n"
        commands = shown_commands(text)
        self.assertEqual(commands, [["datasets/none.sh"], ["kvbench", "ppl", "--policy", "full", "--dtyp", "f32"]])
        self.assertIsNotNone(complaint(commands[0], help_of))
        self.assertIsNotNone(complaint(commands[1], help_of))
        self.assertIsNone(complaint(["bin/kvbench", "ppl", "--policy", "x"], help_of))
        self.assertIsNotNone(complaint(["kvbench", "nothing"], help_of))
        self.assertIsNotNone(complaint(["cmake", "--preset", "none"], help_of))
        self.assertIsNotNone(complaint(["frobnicate"], help_of))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    if len(sys.argv) < 2:
        sys.exit("usage: readme_commands.py PATH_TO_KVBENCH [TEST...]")
    PROGRAM = str(Path(sys.argv.pop(1)).absolute())
    unittest.main()
