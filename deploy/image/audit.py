#!/usr/bin/env python3
"""No known-vulnerable version is in the lock, as far as advisories can be reached; says so where they can't.

Exit status: 0 nothing known, 1 something known, 75 (EX_TEMPFAIL) the advisories could not be reached.
"""

import json
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parent / "requirements.lock"
NOT_DONE = 75


def main() -> None:
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), "--disable-pip", "--progress-spinner=off",
               "--timeout=15", "--format=json"]  # fmt: skip
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        print("audit: NOT DONE: the advisory data did not answer within five minutes")
        sys.exit(NOT_DONE)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        print(f"audit: NOT DONE: pip-audit said: {said[:300]}")
        sys.exit(NOT_DONE)
    for dependency in found:
        for known in dependency.get("vulns", []):
            fixed = known["fix_versions"]
            print(f"audit: {dependency['name']} {dependency['version']}: {known['id']}, fixed in {fixed}")
    # What the data's source does not answer for counts as skipped, not as an error.
    skipped = [dependency["name"] for dependency in found if "skip_reason" in dependency]
    if any(dependency.get("vulns") for dependency in found):
        sys.exit(1)
    if skipped:
        print(f"audit: NOT DONE for {len(skipped)} of {len(found)}: no advisory data came for {', '.join(skipped)}")
        sys.exit(NOT_DONE)
    print(f"audit: no known-vulnerable version among {len(found)}")


if __name__ == "__main__":
    main()
