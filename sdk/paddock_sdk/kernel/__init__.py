"""The kernel of a session: hooks, mount points, coordinator, session.

Pure: asyncio and nothing else. Handlers, tools and the rest are plain callables and objects here; whether one of
them stands for something in another process is not the kernel's business. This file imports nothing, so that a
process pays only for the parts it uses.
"""
