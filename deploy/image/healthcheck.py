"""Exit status 0 if the service in this container is ready, for HEALTHCHECK."""

import http.client
import os
import sys

connection = http.client.HTTPConnection("127.0.0.1", int(os.environ.get("SEALANE_PORT", "8417")), timeout=4)
connection.request("GET", os.environ.get("SEALANE_ROOT_PATH", "") + "/readyz")
sys.exit(connection.getresponse().status != 200)
