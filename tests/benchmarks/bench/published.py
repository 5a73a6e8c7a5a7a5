"""The published package, in an environment of its own that is made from the package index once."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path
from typing import Final

from bench.row import NotMeasured

PUBLISHED: Final = "amplifier-core==2.0.2"
ENVIRONMENTS: Final = Path(__file__).resolve().parents[3] / ".bench" / "published"
_STEP_SECONDS: Final = 120  # downloads some megabytes


def published_python(*more: str) -> Path:
    """Return the interpreter of an environment with the published package, and with what else is required.

    Raises:
        NotMeasured: the packages cannot be installed here.
    """
    named = "".join(f"-{sha256(one.encode()).hexdigest()[:8]}" for one in more)
    tag = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}{named}"
    environment = ENVIRONMENTS / f"{PUBLISHED}-{tag}"
    python, stamp = environment / "bin" / "python", environment / "complete"
    if not stamp.exists():
        _uv("venv", "--clear", "--python", sys.executable, str(environment))
        _uv("pip", "install", "--python", str(python), PUBLISHED, *more)
        stamp.touch()
    return python


def _uv(*arguments: str) -> None:
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_STEP_SECONDS,
            env=environ,
            close_fds=False,
        )
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"{PUBLISHED} cannot be installed: no end within {_STEP_SECONDS} s") from None
    if done.returncode != 0:
        raise NotMeasured(f"{PUBLISHED} cannot be installed: {' '.join(done.stderr.split())}")
