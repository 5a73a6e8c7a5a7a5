"""Answer the name lookups of one module: granted names only, with addresses of the host's making."""
