"""Modules out of git repositories: what an address means, what its ref is now, and the files of a commit.

Importing this package imports nothing else; neither GitPython nor git itself is needed for what is in the cache.
"""
