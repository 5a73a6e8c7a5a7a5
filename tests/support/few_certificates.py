"""Have clients not load the root certificates of this machine: no test reaches a server that one of them vouches for.

To load them takes a client thirty milliseconds of processor time, more than most of its test. Nothing is trusted that
was not before; servers of tests have authorities of their own, whose files are loaded as ever.
"""

from __future__ import annotations

import os
import ssl

import certifi


def load_no_roots() -> None:
    """Have contexts of this process pass over the files that all programs of this machine trust."""
    load, paths = ssl.SSLContext.load_verify_locations, ssl.get_default_verify_paths()
    of_everybody = {certifi.where(), paths.openssl_cafile, paths.openssl_capath, paths.cafile, paths.capath}

    def load_others(
        context: ssl.SSLContext, cafile: object = None, capath: object = None, cadata: object = None
    ) -> None:
        named = {os.fspath(path) for path in (cafile, capath) if isinstance(path, str | os.PathLike)}
        if cadata is not None or not named <= of_everybody:
            load(context, cafile, capath, cadata)  # type: ignore[arg-type]

    ssl.SSLContext.load_verify_locations = load_others  # type: ignore[assignment, method-assign]
