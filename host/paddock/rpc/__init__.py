"""Calls between the host and its workers, and from one worker to another."""
