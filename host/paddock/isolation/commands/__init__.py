"""Sandboxed workers for commands: git, uv and the programs for packages."""
