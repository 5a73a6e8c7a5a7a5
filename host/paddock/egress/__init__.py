"""The network access of modules that were granted one: names, rules and the connections made for them, all in the host.

A worker has no network of its own. The host accepts each of its connections, compares the destination with the grants,
resolves it once and connects to the address that was checked.

An `EgressGate` is one module's way out. It has a `Listener` for each life of the worker, or one of its own. A
`Listener` accepts connections. Each is served as a `ProxyClient` or as a `ProxiedConnection`. A `ProxyClient` makes
requests for several destinations; a tunnel that it asks for is a `ProxiedConnection` as well. A `ProxiedConnection`
goes to one destination. It detects the protocol, and lets the `EgressContext`, which all connections of a module share,
open an `UpstreamConnection`. A `Relay` carries bytes to it, an `HttpRelay` carries requests: each request is an
`HttpExchange`, which puts keys in.
"""
