"""Two entries beside that of modules, for a worker with one job: validate a module, or run tests over it.

The host sends one message with the job and gets one back; then the worker ends. All of a module's code runs in this
process, unhindered: it can send any answer in place of the real one. So the answer is the module's own claim, useful
for its author, and nothing that others may rely on. Its printed output takes another way and is no part of the answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

import msgpack

from paddock_sdk.worker.breakpoints import explain_breakpoints
from paddock_sdk.worker.init_socket import read_exactly
from paddock_sdk.worker.main import set_up_logging

LENGTH: Final = struct.Struct("!I")  # before each of the two messages
MAX_ANSWER_BYTES: Final = 256 << 10  # of a few hundred checks, each with a sentence

# No warning of pytest-asyncio's about a setting that a module may leave to it.
QUIET: Final = ("-W", 'ignore:The configuration option "asyncio_default_fixture_loop_scope" is unset')
_BEHAVIOUR: Final = "test_behavior.py"
# Pytest collects the bases in a file of the worker's own.
_BEHAVIOUR_TEXT: Final = "from paddock_sdk.validation import behavioral\n"
_BEHAVIOUR_CLASS: Final = "\n\nclass Test{base}(behavioral.{base}):\n    pass\n"


def validate(rpc: socket.socket, name: str) -> None:
    """Answer with the checks of a module's kind: `{"checks": [{name, passed, message, severity}]}`."""
    _serve(rpc, _validate)


def run_tests(rpc: socket.socket, name: str) -> None:
    """Run pytest over a copy of the module's repository, and answer with how it ended: `{"code"}`."""
    _serve(rpc, _run_tests)


def _serve(rpc: socket.socket, work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    rpc.setblocking(True)
    set_up_logging()
    explain_breakpoints(2)
    (size,) = LENGTH.unpack(read_exactly(rpc.fileno(), LENGTH.size))
    answer = msgpack.packb(work(msgpack.unpackb(read_exactly(rpc.fileno(), size))))
    rpc.sendall(LENGTH.pack(len(answer)) + answer)


def _validate(asked: dict[str, Any]) -> dict[str, Any]:
    from paddock_sdk.validation import validator_for

    sys.path[:0] = [asked["import_root"]]
    sys.path.extend(asked["libraries"])
    validator = validator_for(asked["kind"])
    result = asyncio.run(validator.validate(asked["package_dir"], asked["entry_point"], asked["config"]))
    checks = [
        {"name": one.name, "passed": one.passed, "message": one.message, "severity": one.severity}
        for one in result.checks
    ]
    return {"checks": checks}


def _run_tests(asked: dict[str, Any]) -> dict[str, Any]:
    # The contract's fixtures go by the name of the folder, and tests may write beside themselves.
    place = os.path.join(os.environ["TMPDIR"], asked["folder"])
    _copy(asked["root"], os.path.join(place, asked["into"]))
    os.chdir(place)
    sys.path[:0] = [os.path.normpath(os.path.join(place, asked["import_root"]))]
    sys.path.extend(asked["libraries"])
    sys.dont_write_bytecode = True
    os.environ.update(PYTHONDONTWRITEBYTECODE="1", COLUMNS=str(asked["columns"]))
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    # Without its plugin for the cache, pytest would warn of a module's own setting of that.
    cache = os.path.join(os.environ["TMPDIR"], ".cache/pytest")
    args = [*QUIET, "-o", f"cache_dir={cache}", "--color=no", *asked["args"]]
    explain_breakpoints(os.dup(2))  # past pytest, which keeps the output of tests that pass
    if asked["bases"]:
        args += _behaviour(asked["bases"], os.path.join(place, asked["package"]))
        args += [f"--module-config={json.dumps(asked['config'])}"]
    import pytest

    return {"code": int(pytest.main(args))}


def _copy(source: str, target: str) -> None:
    """Copy a folder of read-only files as writable ones; works where modes may not be changed, too."""
    for folder, folders, files in os.walk(source):
        place = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(place, exist_ok=True)
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                os.symlink(os.readlink(path), os.path.join(place, name))
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                mode = 0o700 if os.access(path, os.X_OK) else 0o600
                fd = os.open(os.path.join(place, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
                with open(path, "rb") as file, open(fd, "wb") as copy:
                    shutil.copyfileobj(file, copy)


def _behaviour(bases: list[str], package: str) -> list[str]:
    """Write the file that has the tests of a kind, and return the arguments that run it over a package."""
    folder = os.path.join(os.environ["TMPDIR"], "behavior")
    os.mkdir(folder)
    with open(os.path.join(folder, _BEHAVIOUR), "w", encoding="utf-8") as file:
        file.write(_BEHAVIOUR_TEXT + "".join(_BEHAVIOUR_CLASS.format(base=base) for base in bases))
    settings = ("asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function")
    return [f"--rootdir={folder}", *(f"-o{setting}" for setting in settings), f"--module-path={package}", folder]
