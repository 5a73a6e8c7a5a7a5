"""The proxies that the host's kernel holds in place of objects in workers."""
