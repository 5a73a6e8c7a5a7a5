"""Provisioners as tests have them: without settings, and with nothing of the user's but what a test gives."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from paddock_sources.cache import SourceCache
from paddock_sources.progress import SilentProgress
from paddock_sources.provisioner import Provisioner
from paddock_sources.settings import SourceSettings


def provisioner_of(cache: SourceCache, runner: Any, direct: Any = None, **given: Any) -> Provisioner:
    """Return one that runs git and the like by `runner`, and by `direct` what needs the user's rights.

    Without any runner, the test fails that would fetch something.
    """
    preloaded = {"msgpack": metadata.version("msgpack")}
    usual = {"environ": {}, "settings": SourceSettings(), "preloaded": lambda: preloaded, "progress": SilentProgress()}
    return Provisioner(cache, runner, direct or runner, **{**usual, **given})
