"""The Amplifier module contracts: what modules, orchestrators and the kernel say to each other.

Importing this package imports nothing: each file is imported for what it holds, because only some of them
need pydantic and a module process should not pay for it before it uses it.
"""
