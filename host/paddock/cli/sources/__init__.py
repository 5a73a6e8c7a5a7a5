"""The commands about the origin of modules: the lock file, and the cache."""
