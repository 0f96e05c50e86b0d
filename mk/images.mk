# Container images: docs/operations.md tells how they are run.

VENV ?= .venv

.PHONY: images lock test-images audit load

images: ## the image of every architecture and one manifest list, localhost/sealane
	$(VENV)/bin/python deploy/image/images.py $(IMAGES)

lock: ## fixed versions of what the images hold, with hashes; UPGRADE=--upgrade for the newest
	deploy/image/lock.sh $(UPGRADE)

audit: ## no known-vulnerable version is in the lock
	$(VENV)/bin/python deploy/image/audit.py

test-images: images ## each image does its main job, emulated where it must be
	$(VENV)/bin/python -m pytest tests/images -m images

load: ## every load scenario for a minute, with a report each in build/load; LOAD="--seconds 10 Mixed"
	$(VENV)/bin/python tests/load/run.py $(LOAD)
