"""How much to try: with SEALANE_TEST_EFFORT=small, as much as an emulated machine does in a few minutes."""

import os

SMALL = os.environ.get("SEALANE_TEST_EFFORT") == "small"
