"""Sandboxed workers for commands: git and the installers of packages."""
