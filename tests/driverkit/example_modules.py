"""Import the modules of example drivers."""

import importlib.util
import sys


def load(folder, name, monkeypatch):
    """Import a module of an example as its program does: from its own folder."""
    monkeypatch.syspath_prepend(str(folder))
    for known in ("gpus", "driver"):
        monkeypatch.delitem(sys.modules, known, raising=False)
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module
