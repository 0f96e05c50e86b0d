#!/usr/bin/env python3
"""Make the root folder that Sealane's images stand on, of Debian packages:  root.py ARCHITECTURE FOLDER

Python, the C library and PostgreSQL's client library, without shell, package manager or compiler. ARCHITECTURE is
Docker's name for it. Nothing foreign is run: packages are unpacked, and what their scripts would do is done here.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import debian

DEBIAN_NAME = {"amd64": "amd64", "arm64": "arm64", "s390x": "s390x", "loong64": "loong64"}
USER = 65532

PACKAGES = ["base-files", "libpq5", "python3"]
# What PyPI has no wheels of and is no plain C; see docs/decisions.md.
PACKAGES_OF = {
    "s390x": ["python3-uvloop"],
    "loong64": ["python3-uvloop", "python3-pydantic"],
}
# What dependencies name for their installation scripts alone, or for what an image does not do.
WITHOUT = [
    "debconf", "dpkg", "gcc-16-base", "libpam-runtime", "mawk", "media-types", "netbase", "perl-base", "sensible-utils",
    "tar", "tzdata",
    "python3-dnspython", "python3-email-validator", "python3-idna", "python3-typing-extensions",
    "python3-typing-inspection",  # not used, or in requirements.lock
]  # fmt: skip
# Under usr/bin and usr/sbin all but Python goes.
UNUSED = [
    "etc/cron.daily", "etc/default", "etc/init.d", "etc/python3", "etc/update-motd.d", "usr/bin", "usr/sbin",
    "usr/lib/*/gconv", "usr/lib/*/engines-3", "usr/lib/*/sasl2", "usr/lib/*/perl-base", "usr/lib/locale/C.utf8",
    "usr/lib/python3.*/ensurepip", "usr/lib/python3.*/idlelib", "usr/lib/python3.*/lib2to3",
    "usr/lib/python3.*/pydoc_data", "usr/lib/python3.*/test", "usr/lib/python3.*/tkinter",
    "usr/lib/python3.*/turtledemo", "usr/lib/systemd", "usr/lib/valgrind", "usr/share/applications",
    "usr/share/base-files", "usr/share/bash-completion", "usr/share/bug", "usr/share/gcc", "usr/share/gdb",
    "usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/man", "usr/share/pixmaps",
    "usr/share/python3", "usr/share/binfmts", "usr/share/menu", "usr/share/debhelper", "usr/share/dict",
]  # fmt: skip


def trim(root: Path) -> None:
    """Take away what a service never reads; copyright files stay."""
    python = root / "usr/bin/python3"
    kept = {python, python.with_name(python.readlink().name)}
    for pattern in UNUSED:
        for unused in sorted(root.glob(pattern)):
            if unused.name in ("bin", "sbin"):
                for program in unused.iterdir():
                    if program not in kept:
                        program.unlink()
            elif unused.is_dir() and not unused.is_symlink():
                shutil.rmtree(unused)
            else:
                unused.unlink()
    for document in sorted((root / "usr/share/doc").rglob("*"), reverse=True):
        if document.is_dir() and not document.is_symlink():
            if not any(document.iterdir()):
                document.rmdir()
        elif document.name != "copyright" and not (document.is_symlink() and document.parent.name == "doc"):
            document.unlink()


def settle(root: Path) -> None:
    """What a container needs to find: users, host names, folders to mount over."""
    etc = root / "etc"
    etc.mkdir(exist_ok=True)
    files = {
        "passwd": f"root:x:0:0:root:/:/sbin/nologin\nsealane:x:{USER}:{USER}:sealane:/var/lib/sealane:/sbin/nologin\n",
        "group": f"root:x:0:\nsealane:x:{USER}:\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }
    for name, text in files.items():
        (etc / name).write_text(text)
    for place in ("dev", "proc", "sys", "run", "tmp", "etc/sealane", "var/lib/sealane"):
        (root / place).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)


def compile_python(root: Path, *folders: Path) -> None:
    """Compile Python files, so that a read-only container starts fast, in a way that depends on their content alone:
    the compiled files are found by a hash that nobody checks, and neither times nor places go into them."""
    for folder in folders:
        for cached in list(folder.rglob("__pycache__")):
            shutil.rmtree(cached)
        # Some files of Debian's are templates or for other versions and do not compile; they are left as they are.
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", "-j", "1", "--invalidation-mode", "unchecked-hash",
             "-s", root, "-p", "/", folder],
            env={**os.environ, "PYTHONHASHSEED": "0"}, check=False, stdout=subprocess.DEVNULL,
        )  # fmt: skip


def date(folder: Path) -> None:
    """Give everything one date, SOURCE_DATE_EPOCH."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def make(architecture: str, root: Path) -> list[str]:
    root.mkdir(parents=True, exist_ok=True)
    names = PACKAGES + PACKAGES_OF.get(architecture, [])
    unpacked = debian.unpack(DEBIAN_NAME[architecture], names, root, without=WITHOUT)
    trim(root)
    settle(root)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not (root / "usr/lib" / version).is_dir():
        sys.exit(f"{root} has no {version}: this must run under the Python version that it is for")
    compile_python(root, *sorted((root / "usr/lib").glob("python3*")))
    date(root)
    return unpacked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architecture", choices=DEBIAN_NAME)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    print(*make(options.architecture, options.folder))


if __name__ == "__main__":
    main()
