"""Calls that the host makes of a worker's objects, and the objects that cross."""
