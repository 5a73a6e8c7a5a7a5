"""The way out for modules that were granted one: names, rules and the connections made for them, all in the host.

A worker has no network of its own. What it connects to is accepted here, compared with its grants, resolved once and
connected to the address that was checked.
"""
