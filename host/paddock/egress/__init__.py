"""The way out for modules that were granted one: names, rules and the connections made for them, all in the host.

A worker has no network of its own. What it connects to is accepted here, compared with its grants, resolved once and
connected to the address that was checked.

An `EgressGate` is one module's way out, and has doors: one for each life of its worker, or one of its own.
A `Listener` accepts connections, and has each served: as a visit to the proxy, or as a passage to where it was to go.
A `ProxyClient` makes requests for several destinations; a tunnel that it asks for is a passage as well.
A `ProxiedConnection` finds out what is spoken, and has the `EgressContext`, which all of a module's connections share,
open links.
A `Relay` carries bytes over a link, an `HttpRelay` requests: each by an `HttpExchange`, which puts keys in.
"""
