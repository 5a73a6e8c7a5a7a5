"""Failures that no class of their own tells apart, but their code."""

from __future__ import annotations

import pytest

from paddock.errors import PaddockError
from paddock_sources.errors import SourceError


def failing(code: str, match: str | None = None) -> pytest.RaisesExc[SourceError | PaddockError]:
    """Expect a failure of the kind that scripts see as `code`, and whose text matches."""
    return pytest.raises((SourceError, PaddockError), match=match, check=lambda error: error.code == code)
