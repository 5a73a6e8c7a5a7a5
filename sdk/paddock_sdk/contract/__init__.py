"""The Amplifier module contracts: the interface between modules, orchestrators and the kernel.

Importing this package imports nothing: import each file for what it defines. Only some of them need pydantic, and a
module process should not pay for it before it uses it.
"""
