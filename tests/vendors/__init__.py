"""Servers that speak as vendors of models do, and play a script instead of thinking.

`VendorServer(script, dialect)` listens on a port of the loopback, in a thread of its own, over http or TLS. A `Script`
says what the model answers and what goes wrong; a `Dialect` says how one vendor writes it, and refuses what the vendor
would refuse. `python -m vendors.serve` runs one by itself. A further vendor is one file with a `Dialect`, and one
line in `vendors.serve`.
"""
