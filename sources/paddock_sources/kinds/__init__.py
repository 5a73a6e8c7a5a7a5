"""The kinds of sources, a file each; `paddock_sources.uri` has their table."""
