"""Modules from git repositories: parse an address, resolve its ref, and get the files of a commit.

Importing this package imports nothing else; neither GitPython nor git itself is needed for files in the cache.
"""
