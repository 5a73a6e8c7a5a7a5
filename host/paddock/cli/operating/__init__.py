"""The commands that show the sessions that run, and act on them."""
