#!/bin/sh
# Run a command; if the build was given the secret "ca", with the certificates in it.
if [ -s /run/secrets/ca ]; then
    export PIP_CERT=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca
fi
exec "$@"
