"""Bill of materials of an image's files, in CycloneDX 1.6 JSON (ECMA-424): Debian packages and Python distributions."""

import email
import re
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote


def bill(root: Path, name: str, architecture: str, epoch: int) -> dict[str, Any]:
    """The document for the image `name` whose files are in `root`; the same files give the same document."""
    components = debian(root, architecture) + python(root)
    identity = uuid.uuid5(uuid.NAMESPACE_URL, name + "".join(component["bom-ref"] for component in components))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
            "component": {"type": "container", "bom-ref": name, "name": name},
        },
        "components": components,
    }


def debian(root: Path, architecture: str) -> list[dict[str, Any]]:
    found = []
    for file in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        fields = email.message_from_string(file.read_text())
        package, version = fields["Package"], fields["Version"]
        purl = f"pkg:deb/debian/{package}@{quote(version, safe='.~-')}?arch={fields['Architecture'] or architecture}"
        found.append({"type": "library", "bom-ref": purl, "purl": purl, "name": package, "version": version})
    return found


def python(root: Path) -> list[dict[str, Any]]:
    """Distributions that pip installed; Debian's Python packages are among Debian's."""
    found = []
    for file in sorted((root / "opt/sealane/lib").glob("*.dist-info/METADATA")):
        fields = email.message_from_string(file.read_text())
        name, version = fields["Name"], fields["Version"]
        purl = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"
        component = {"type": "library", "bom-ref": purl, "purl": purl, "name": name, "version": version}
        if fields["License-Expression"]:
            component["licenses"] = [{"expression": fields["License-Expression"]}]
        found.append(component)
    return found
