"""HTTP calls, thin: each reads a request, asks the keyring, and answers."""
