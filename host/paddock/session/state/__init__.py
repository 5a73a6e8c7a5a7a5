"""What modules of a session share: its coordinator, its hooks, and their mirrors in workers."""
