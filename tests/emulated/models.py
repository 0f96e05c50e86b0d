"""The CPU models that tests run on, and what must be true of each."""

from dataclasses import dataclass

from guest import ARCHITECTURES, Architecture


@dataclass(frozen=True)
class Model:
    """One CPU model of one architecture, by the best kernel that it allows."""

    architecture: Architecture
    best: str

    @property
    def cpu(self) -> str:
        return self.architecture.cpus[self.best]

    @property
    def kernels(self) -> list[str]:
        """What the engine must offer here, best first: the levels from this one down, and scalar everywhere."""
        levels = list(self.architecture.cpus)
        return list(dict.fromkeys([*levels[levels.index(self.best) :], "scalar"]))

    def __str__(self) -> str:
        return f"{self.architecture.name}-{self.best}"


MODELS = [Model(architecture, best) for architecture in ARCHITECTURES.values() for best in architecture.cpus]
# Debian's loong64 packages take LSX as given, its Python included: below that there are only our own programs.
PYTHON_MODELS = [model for model in MODELS if str(model) != "loongarch64-scalar"]
BEST_MODELS = [Model(architecture, next(iter(architecture.cpus))) for architecture in ARCHITECTURES.values()]
