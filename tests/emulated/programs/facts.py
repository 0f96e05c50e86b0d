"""Print, as JSON, what the engine and the packaging tools of this machine's Python say."""

import dataclasses
import json
import platform
import sys
from importlib.metadata import distribution, version

from packaging.requirements import Requirement
from packaging.tags import sys_tags

import engine

wanted = [Requirement(text) for text in distribution("sealane").requires or ()]
wanted = [requirement for requirement in wanted if requirement.marker is None or requirement.marker.evaluate()]
json.dump(
    {
        "info": dataclasses.asdict(engine.info()),
        "file": engine.__file__,
        "machine": platform.machine(),
        "tags": [str(tag) for tag in sys_tags()],
        "unmet": [str(requirement) for requirement in wanted if version(requirement.name) not in requirement.specifier],
    },
    sys.stdout,
)
