"""Alembic migrations, run by `sealane init` and `sealane serve --dev`."""
