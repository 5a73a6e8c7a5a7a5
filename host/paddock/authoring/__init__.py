"""Tools for authors of modules: a project to start from, its validation, its tests, all in a sandbox.

This process never imports or executes any code of a module. Only throw-away workers do, which get no grants and end
when their one job is done.
"""

from __future__ import annotations
