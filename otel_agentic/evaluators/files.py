"""Evaluators from files of a user's own: `path.py:name`."""

from __future__ import annotations

import copy
import hashlib
import importlib
import sys
import traceback
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from otel_agentic.errors import OtelAgenticError, UsageError
from otel_agentic.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Container

    from otel_agentic.config import EvaluatorSettings
    from otel_agentic.evaluators.base import AnyEvaluator

_FORM: Final = "FILE.py:NAME, as in checks.py:polite"
_WAYS: Final = ("evaluate", "ask", "evaluate_group")
_MAX_TOLD: Final = 300
#: Modules that such files imported from beside them, by name, each with its folder.
_beside: Final[dict[str, Path]] = {}
#: Files that were run, in whatever state.
_run: Final[set[Path]] = set()


def evaluator_of(given: str, settings: EvaluatorSettings) -> AnyEvaluator:
    """Return the evaluator that `path.py:name` means.

    Its version is its own and a hash of the file: who edits the file evaluates anew. Files that it imports are not in it.

    Args:
        given: the file, and the name of an evaluator in it: what `evaluator` made of a function, a class or an object.
        settings: what a class is made with.

    Raises:
        UsageError: there is no such file, it does not load, or has no evaluator of that name; says which are there.
        ConfigError: the evaluator cannot work with the settings.
    """
    path, name = _split(given)
    try:
        content = read_regular(path)
    except OSError as error:
        raise UsageError(f"evaluator {given}: {path} cannot be read: {error.strerror or error}") from error
    try:
        module = _loaded(path.resolve(), content)
    except ImportError as error:
        raise UsageError(f"evaluator {given}: {path} does not load: {error}") from error
    found = getattr(module, name, None)
    if not _is_evaluator(found):
        raise UsageError(f"evaluator {given}: {_told_instead(found, name, path)}; {_offered(module, path)}")
    return _of_file(_made(found, given, settings), _digest(content))


def _split(given: str) -> tuple[Path, str]:
    file, colon, name = given.rpartition(":")
    if not (colon and file.endswith(".py") and name.isidentifier()):
        raise UsageError(f"evaluator {given}: give {_FORM}")
    return Path(file), name


@cache
def _loaded(path: Path, content: bytes) -> ModuleType:
    """Return the module that a file of some content is; it is run once.

    Raises:
        ImportError: it does not run; says where.
    """
    name = f"otel_agentic_evaluators_{path.stem}_{_digest(content)}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look themselves up there
    _forget_beside(path)
    before = set(sys.modules)
    sys.path.insert(0, str(path.parent))  # as if it were run: it may import what lies beside it
    try:
        exec(compile(content, str(path), "exec"), vars(module))  # noqa: S102 — the user's own file, named by the user
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ImportError(_raised(error, path)) from error
    finally:
        with suppress(ValueError):
            sys.path.remove(str(path.parent))
        _note_beside(path.parent, before)
    return module


def _forget_beside(path: Path) -> None:
    """Let a file import its own: another folder may have a module of the same name, and of an edited file all is new."""
    for name, folder in list(_beside.items()):
        if folder != path.parent or path in _run:
            sys.modules.pop(name, None)
            del _beside[name]
    _run.add(path)
    importlib.invalidate_caches()


def _note_beside(folder: Path, before: Container[str]) -> None:
    """Note what was imported from beside a file, and nothing of a package that was there before."""
    for name in list(sys.modules):
        top = name.partition(".")[0]
        if top not in before and _lies_in(folder, top):
            _beside[name] = folder


def _lies_in(folder: Path, name: str) -> bool:
    """Return whether an imported module is a file of a folder, or a folder in it."""
    module = sys.modules.get(name)
    places = {getattr(module, "__file__", None), *getattr(module, "__path__", ())}
    return not places.isdisjoint({str(folder / f"{name}.py"), str(folder / name)})


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]


def _raised(error: BaseException, path: Path) -> str:
    """Return an exception in words, with the last line of the file that led to it."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno
        text = error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), None)
        text = " ".join(str(error).split())[:_MAX_TOLD]
    where = "" if line is None else f"line {line}: "
    return f"{where}{type(error).__name__}: {text}" if text else f"{where}{type(error).__name__}"


def _is_evaluator(found: object) -> bool:
    return any(hasattr(found, way) for way in _WAYS)


def _told_instead(found: object, name: str, path: Path) -> str:
    if found is None:
        return f"there is no {name} in {path}"
    if callable(found) and not isinstance(found, type):
        return f"{name} is a function; put @evaluator(...) of otel_agentic before it"
    return f"{name}, of type {type(found).__name__}, is no evaluator: it has none of {', '.join(_WAYS)}"


def _offered(module: ModuleType, path: Path) -> str:
    """Return which evaluators a file has; what it imported from elsewhere is not its own."""
    names = [name for name, found in vars(module).items() if _is_own(found, module)]
    return f"evaluators in {path.name}: {', '.join(names)}" if names else f"{path.name} has no evaluator"


def _is_own(found: object, module: ModuleType) -> bool:
    return _is_evaluator(found) and getattr(found, "__module__", None) == module.__name__


def _made(found: Any, given: str, settings: EvaluatorSettings) -> Any:
    """Return the evaluator that an object is, or that a class makes of the settings."""
    if not isinstance(found, type):
        return found
    try:
        return found.from_settings(settings) if hasattr(found, "from_settings") else found()
    except OtelAgenticError:
        raise
    except Exception as error:
        raise UsageError(f"evaluator {given}: it cannot be made: {type(error).__name__}: {error}") from error


def _of_file(evaluator: Any, digest: str) -> AnyEvaluator:
    """Return an evaluator whose version changes with its file, whatever holds the version of its own."""
    version = "-".join(filter(None, (str(getattr(evaluator, "version", "")), digest)))
    kind = type(evaluator)
    attributes = {"version": version, "__slots__": (), "__module__": kind.__module__}
    own = copy.copy(evaluator)
    if "version" in getattr(own, "__dict__", {}):
        object.__setattr__(own, "version", version)  # it may be frozen
    else:
        object.__setattr__(own, "__class__", type(kind.__name__, (kind,), attributes))
    return cast("AnyEvaluator", own)
