"""Serve tools to an MCP client: the protocol's server side, over standard input and output."""
