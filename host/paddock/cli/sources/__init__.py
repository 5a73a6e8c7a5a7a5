"""The commands about where modules come from: the lock file, and the cache."""
