"""Journals of sessions: files in which a session outlives its host, and going on with one."""
