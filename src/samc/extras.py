"""Packages that only some uses need: imported when they are asked for, and one line says how to get a missing one."""

import importlib
from typing import Any

from samc.errors import ConfigError, one_line


def imported(name: str, install: str) -> Any:
    """The module of a package, or what is wrong with it and the pip command that mends it."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # a package may fail in its own way: torchvision for another torch raises RuntimeError
        absent = isinstance(error, ModuleNotFoundError) and error.name == name
        problem = "is not installed" if absent else f"cannot be imported ({one_line(error)})"
        raise ConfigError(f"{name} {problem}; pip install {install}") from None
