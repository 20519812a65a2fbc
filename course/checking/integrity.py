"""Whether the checks are still the checks, after a learner's code has run beside them.

Both share a Python interpreter, so a learner could patch `diagnosis.close` or `torch.allclose`.
`Seal` notices that a name means something else than at the start; `refuses_junk` notices that the
checks have begun to accept everything, however that was done.
"""

import builtins
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from course.checking.course import run_checks
from course.checking.diagnosis import CheckFailed
from course.checking.sandbox import NotWritten

# What the checks, and the child that runs them, are made of.
SEALED = (
    *("copy", "functools", "inspect", "itertools", "json", "linecache", "math"),
    *("numbers", "operator", "os", "random", "traceback", "numpy", "torch", "torch.linalg"),
    *("torch.nn", "torch.nn.functional", "torch.testing"),
)


class Seal:
    """What the names of the checker's modules, and of their classes, mean at this moment."""

    def __init__(self) -> None:
        own = [name for name in sys.modules if name.split(".")[0] in ("course", "transformer_lab")]
        self.modules = {name: sys.modules[name] for name in (*SEALED, *own) if name in sys.modules}
        self.builtins = dict(builtins.__dict__)
        self.before = self._meanings()

    def broken(self) -> list[str]:
        """Return the names that mean something else now."""
        # First of all, and without using any of them.
        now, was = builtins.__dict__, self.builtins
        if changed := [name for name in was if now.get(name) is not was[name] and name != "_"]:
            return changed
        replaced = [name for name, was in self.modules.items() if sys.modules.get(name) is not was]
        now = self._meanings()
        changed = (name for name, was in self.before.items() if not _same(now.get(name), was))
        return replaced + sorted(changed)

    def _meanings(self) -> dict[str, tuple]:
        meanings, seen = {}, set()
        for name, module in self.modules.items():
            for label, value in list(vars(module).items()):
                meanings[f"{name}.{label}"] = _meaning(value)
                if inspect.isclass(value) and _is_sealed(value, module) and value not in seen:
                    seen.add(value)
                    meanings |= {
                        f"{name}.{label}.{part}": _meaning(each)
                        for part, each in _parts(value).items()
                    }
        return meanings


def _is_sealed(value: type, module: ModuleType) -> bool:
    return value in (Tensor, nn.Module) or value.__module__ == module.__name__ != "torch"


def _parts(kind: type) -> dict[str, Any]:
    """Return a class's attributes; of Tensor the inherited ones too, which a patch would hide."""
    inherited = dir(kind) if kind is Tensor else ()
    parts = {name: inspect.getattr_static(kind, name) for name in inherited if name != "__dict__"}
    return parts | vars(kind)


def _meaning(value: Any) -> tuple:
    """Return the object itself, and what can be changed inside a function."""
    return (value, *(getattr(value, part, None) for part in ("__code__", "__defaults__")))


def _same(now: tuple | None, was: tuple) -> bool:
    return now is not None and all(a is b for a, b in zip(now, was, strict=True))


# ---- The canary


class Everything(int):
    """A number that says of itself that it equals everything."""

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    __ge__ = __le__ = __gt__ = __lt__ = __eq__


def refuses_junk(file: Path, objects: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Return whether the checks of a task fail answers that cannot be right."""
    return all(
        _refuses(file, {**objects, **{name: _junk(objects[name], value) for name in names}}, names)
        for value in (None, Everything(7))
    )


def _refuses(file: Path, objects: Mapping[str, Any], names: Sequence[str]) -> bool:
    try:
        run_checks(file, objects, names)
    except (CheckFailed, NotWritten):
        return True
    return False


def _junk(answer: Any, value: Any) -> Any:
    """Return a function, or a class like that of the answer, that gives `value` whatever comes."""

    def junk(*_: Any, **__: Any) -> Any:
        return value

    if not inspect.isclass(answer):
        return junk
    methods = [name for name, part in vars(answer).items() if inspect.isfunction(part)]
    own = {name: junk for name in (*methods, "forward") if not name.startswith("_")}
    return type("Junk", (nn.Module,), own | {"__init__": lambda self, *_, **__: _init(self)})


def _init(module: nn.Module) -> None:
    nn.Module.__init__(module)
