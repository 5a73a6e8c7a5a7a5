"""What the host's kernel holds in place of the objects that live in workers."""
