#!/usr/bin/env python3
"""Build the image of every architecture and one manifest list over them:  images.py [--name N] [ARCHITECTURE ...]

By docker buildx where a Docker engine answers, else by buildah, which as root needs neither engine nor registry; the
Dockerfile is the same. The date of everything inside is the commit's, so two builds of one commit give the same layers.
Bills of materials go to dist/.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sbom

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
ARCHITECTURES = ["amd64", "arm64", "s390x", "loong64"]
# Programs that building without an engine takes, and their packages.
TOOLS = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}


def run(*command: str | Path, capture: bool = False) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=PROJECT, check=False, text=True,
        stdout=subprocess.PIPE if capture else None,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"images: exit status {done.returncode}: {' '.join(map(str, command))}")
    return (done.stdout or "").strip()


def answers(*command: str) -> bool:
    try:
        return subprocess.run(command, check=False, capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def install_tools() -> None:
    """buildah and mmdebstrap, from Debian, if they are missing."""
    missing = [package for program, package in TOOLS.items() if not shutil.which(program)]
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit(f"images: no Docker engine answers, and {' and '.join(missing)} must be installed first")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "-q", "update"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        ["apt-get", "-qy", "install", "--no-install-recommends", *missing],
        check=True, stdout=subprocess.DEVNULL, env=environment,
    )  # fmt: skip


def arguments() -> list[str]:
    """What both builders take: who and when the commit was."""
    inside = answers("git", "-C", str(PROJECT), "rev-parse", "HEAD")
    revision = run("git", "rev-parse", "HEAD", capture=True) if inside else "unknown"
    if inside and run("git", "status", "--porcelain", "--", "engine", "service", "deploy", "Dockerfile", capture=True):
        revision += "-changed"
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch()))
    values = {"REVISION": revision, "CREATED": created, "SOURCE_DATE_EPOCH": str(epoch())}
    # Where certificates are signed by an authority of the network's own.
    authority = Path(os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt")
    secret = [f"--secret=id=ca,src={authority}"] if authority.is_file() else []
    return secret + [f"--build-arg={name}={value}" for name, value in values.items()]


def epoch() -> int:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    inside = answers("git", "-C", str(PROJECT), "rev-parse", "HEAD")
    return int(run("git", "log", "-1", "--format=%ct", capture=True)) if inside else 0


def with_buildah(name: str, architectures: list[str], fresh: bool) -> None:
    install_tools()
    # Chroot isolation works in containers and without cgroups; Docker's format has HEALTHCHECK.
    common = ["--isolation=chroot", "--format=docker", "--pull-never", f"--timestamp={epoch()}", *arguments()]
    builder = os.environ.get("SEALANE_BUILDER", "")
    if not builder:
        builder = "localhost/sealane-builder"
        run("sh", PROJECT / "deploy/base/builder.sh", builder)
    base = [f"--build-arg=BASE={os.environ['SEALANE_BASE']}"] if os.environ.get("SEALANE_BASE") else []

    def build(architecture: str) -> None:
        began = time.monotonic()
        run(
            "buildah", "bud", "--quiet", "--no-cache" if fresh else "--layers=true", *common, *base,
            f"--build-arg=BUILDER={builder}:{architecture}", f"--platform=linux/{architecture}",
            f"--tag={name}:{architecture}", PROJECT, capture=True,
        )  # fmt: skip
        print(f"{name}:{architecture} built in {time.monotonic() - began:.0f} s", flush=True)

    with ThreadPoolExecutor(2) as pool:  # one downloads while the other compiles
        list(pool.map(build, architectures))
    subprocess.run(["buildah", "manifest", "rm", f"{name}:latest"], check=False, capture_output=True)
    run("buildah", "manifest", "create", f"{name}:latest", capture=True)
    for architecture in architectures:
        run("buildah", "manifest", "add", "--arch", architecture, "--os", "linux", f"{name}:latest",
            f"containers-storage:{name}:{architecture}", capture=True)  # fmt: skip
        describe(name, architecture)


def describe(name: str, architecture: str) -> None:
    """Print size and layers, and write the bill of materials."""
    image = f"{name}:{architecture}"
    described = json.loads(run("buildah", "inspect", "--type", "image", image, capture=True))
    size = run("buildah", "images", "--format", "{{.Size}}", image, capture=True)
    with tempfile.TemporaryDirectory() as scratch:
        packed = Path(scratch, "image.tar")
        run("buildah", "push", "--quiet", "--format=oci", image, f"oci-archive:{packed}", capture=True)
        download = packed.stat().st_size / 1e6
    layers = " ".join(layer.removeprefix("sha256:")[:12] for layer in described["Docker"]["rootfs"]["diff_ids"])
    container = run("buildah", "from", "--pull-never", "--arch", architecture, image, capture=True)
    try:
        root = Path(run("buildah", "mount", container, capture=True))
        bill = sbom.bill(root, f"{name}:{architecture}", architecture, epoch())
        out = PROJECT / "dist" / f"sealane-{architecture}.cdx.json"
        out.parent.mkdir(exist_ok=True)
        out.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n")
    finally:
        run("buildah", "rm", container, capture=True)
    parts = len(bill["components"])
    print(f"{image}: {size} unpacked, {download:.0f} MB to download, {parts} components, layers {layers}", flush=True)


def with_docker(name: str, architectures: list[str], fresh: bool) -> None:
    """One build for all platforms, kept by the engine (its containerd store), or sent to NAME with SEALANE_PUSH=1."""
    push = "true" if os.environ.get("SEALANE_PUSH") else "false"
    run(
        "docker", "buildx", "build", *arguments(), *(["--no-cache"] if fresh else []),
        f"--platform={','.join(f'linux/{architecture}' for architecture in architectures)}",
        "--sbom=true", "--provenance=mode=max",
        f"--output=type=image,name={name}:latest,rewrite-timestamp=true,push={push}",
        PROJECT,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help=", ".join(ARCHITECTURES))
    parser.add_argument("--name", default="localhost/sealane", help="name of the images, without tag")
    parser.add_argument("--fresh", action="store_true", help="use nothing of earlier builds, so take Debian's latest")
    options = parser.parse_args()
    for unknown in set(options.architectures) - set(ARCHITECTURES):
        parser.error(f"unknown architecture {unknown}; there are {', '.join(ARCHITECTURES)}")
    build = with_docker if answers("docker", "buildx", "version") and answers("docker", "info") else with_buildah
    build(options.name, options.architectures or ARCHITECTURES, options.fresh)


if __name__ == "__main__":
    main()
