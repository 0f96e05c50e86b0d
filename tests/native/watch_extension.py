"""Runs extension_program.py under valgrind's memcheck and fails for every record that the extension has a part in.

The interpreter's own records (its small integers and its import machinery give some) are counted, not judged.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

PROGRAM = Path(__file__).parent / "extension_program.py"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = ["valgrind", "-q", "--xml=yes", f"--xml-file={report}", "--leak-check=full", "--num-callers=40"]
        environment = os.environ | {"PYTHONMALLOC": "malloc"}
        ran = subprocess.run([*command, sys.executable, "-B", str(PROGRAM), *sys.argv[1:]], env=environment)
        if ran.returncode:
            return ran.returncode
        errors = ET.parse(report).getroot().findall("error")
    ours = [error for error in errors if any("_native" in (where.text or "") for where in error.iter("obj"))]
    ours = [
        error for error in ours if error.findtext("kind") != "Leak_PossiblyLost"
    ]  # types, which the interpreter keeps
    for error in ours:
        print(error.findtext("kind"), error.findtext("what") or error.findtext("xwhat/text"))
        for frame in error.iter("frame"):
            print("   ", frame.findtext("fn"), frame.findtext("file"), frame.findtext("line"))
    print(f"{len(ours)} records with the extension in them, {len(errors) - len(ours)} of the interpreter alone")
    return 1 if ours else 0


if __name__ == "__main__":
    sys.exit(main())
