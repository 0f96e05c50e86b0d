"""`python -m service.cli` is `sealane`, for where the script is not on the path."""

from service.cli.main import app

if __name__ == "__main__":
    app(prog_name="sealane")
