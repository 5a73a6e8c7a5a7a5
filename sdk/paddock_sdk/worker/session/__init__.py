"""The session as a module sees it: local reads of a mirror, changes reported to the host."""
