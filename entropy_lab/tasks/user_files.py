"""A user's own Python file: imported, one member taken, and its errors told by the line of that file."""

import difflib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from entropy_lab.errors import InputError


def member_of(path: Path, member: str) -> Any:
    """Run the file and return what it calls `member`.

    Raises:
        InputError: no such file, one that cannot be imported, or one that defines no such thing.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; give it as path/to/file.py:Name.")
    module = _import(path)
    if not hasattr(module, member):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        close = difflib.get_close_matches(member, own, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it defines {', '.join(own) or 'nothing'}."
        raise InputError(f"{path}: defines no {member!r}; {hint}")
    return getattr(module, member)


def _import(path: Path) -> ModuleType:
    name = f"entropy_lab_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: Python cannot import this file; give a .py file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look the module up by name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's own code: any kind
        del sys.modules[name]
        raise InputError(f"{path}: importing it fails ({place_of(error, path)}); mend the file.") from error
    return module


def place_of(error: BaseException, path: Path) -> str:
    """Describe an error from the user's file with the last line of that file that took part."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"line {error.lineno}: SyntaxError: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == path.name]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}"
