"""What authors of modules need of a host: a project to start from, its validation, its tests, all in a sandbox.

Nothing of a module's code is ever imported or executed in this process; only throw-away workers do that, which are
granted nothing and are gone when their one job is done.
"""

from __future__ import annotations
