"""A pytest without the plugins of these tests: loading them is half of what a run of a few tests takes."""

from __future__ import annotations

_OURS = ("anyio", "hypothesispytest", "platformdirs", "timeout", "xdist", "xdist.looponfail")

PLAIN = tuple(argument for name in _OURS for argument in ("-p", f"no:{name}"))
"""Arguments that leave these plugins out; what a module's author has, pytest-asyncio, is not among them."""
