"""The packages of an MCP server that is written for node: their versions, their files, and the program in them.

npm chooses versions and fetches, shut in. Nothing of a package is executed, no script either. The host reads what npm
got, by hashes that were locked. Importing this package imports nothing else.
"""
