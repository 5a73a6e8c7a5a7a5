"""A coding agent at work, without a key: a model that mends a failing test, played by a server in a vendor's dialect.

`make agent` runs it. Everything but the model is what a person would use: the provider with the vendor's own SDK, the
loop, the tools, and a hook that asks before it lets them write or run programs. One more tool misbehaves.
"""
