"""What the modules of one session did, from what was recorded of it: as facts, and as a page to read."""
