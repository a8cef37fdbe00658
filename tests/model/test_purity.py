"""Purity: the model imports nothing that could act, wait, look at a clock or draw a number."""

import ast
import sys
from pathlib import Path

import pytest

import codehub.model

MODULES = sorted(Path(codehub.model.__path__[0]).glob("**/*.py"))
OURS = ("codehub.model", "codehub.errors")
FORBIDDEN_MODULES = {
    *("asyncio", "ctypes", "io", "multiprocessing", "os", "pathlib", "random", "secrets", "shutil", "signal"),
    *("socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "http", "logging"),
}
FORBIDDEN_NAMES = {"open", "print", "input", "exec", "eval", "__import__", "globals"}
FORBIDDEN_ATTRIBUTES = {"now", "utcnow", "today", "uuid1", "uuid4", "getnode"}
ASYNC = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)


def imports_of(tree: ast.AST) -> list[str]:
    """Every module that is imported, and every `module.name` that is imported from one."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            assert node.module is not None
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def wrongs_of(source: str) -> list[str]:
    """Everything in a module that a pure one would not have."""
    tree = ast.parse(source)
    wrong = [f"imports {name}" for name in imports_of(tree) if not is_pure_import(name)]
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ASYNC):
            wrong.append(f"{line}: async or await")
        elif isinstance(node, ast.comprehension) and node.is_async:
            wrong.append("an asynchronous comprehension")
        elif isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_ATTRIBUTES:
            wrong.append(f"{line}: .{node.attr}")
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
            wrong.append(f"{line}: {node.id}")
        elif isinstance(node, ast.Global | ast.Nonlocal):
            wrong.append(f"{line}: assigns to an outer name")
    return wrong


def is_pure_import(name: str) -> bool:
    if any(name == ours or name.startswith(f"{ours}.") for ours in OURS) or name == "codehub.model":
        return True
    top, last = name.partition(".")[0], name.rpartition(".")[2]
    return top in sys.stdlib_module_names and top not in FORBIDDEN_MODULES and last not in FORBIDDEN_ATTRIBUTES


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_the_module_is_pure(module: Path) -> None:
    assert wrongs_of(module.read_text()) == []


def test_every_module_of_the_model_is_looked_at() -> None:
    assert {"tick", "phase", "plan", "steps", "gc", "__init__"} <= {module.stem for module in MODULES}


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import time",
        "import os.path",
        "import random",
        "import pydantic",
        "import codehub.db",
        "from codehub import config",
        "from codehub.models import x",
        "from uuid import uuid4",
        "from time import monotonic",
        "async def f(): pass",
        "async def f(): await g()",
        "x = datetime.now(UTC)",
        "x = datetime.datetime.utcnow()",
        "x = date.today()",
        "x = uuid.uuid4()",
        "x = open('y')",
        "def f():\n    import socket",
        "def f():\n    global x",
    ],
)
def test_the_check_sees_what_is_impure(source: str) -> None:
    assert wrongs_of(source)


@pytest.mark.parametrize("source", ["from uuid import UUID", "import re", "from codehub.errors import InvalidName"])
def test_the_check_lets_pure_imports_pass(source: str) -> None:
    assert wrongs_of(source) == []
