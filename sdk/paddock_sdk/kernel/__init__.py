"""The kernel of a session: hooks, mount points, coordinator, session.

It is pure: asyncio and nothing else. Handlers, tools and the rest are plain callables and objects here; the kernel does
not know whether one of them stands for an object in another process. This file imports nothing, so that a process pays
only for the parts it uses.
"""
