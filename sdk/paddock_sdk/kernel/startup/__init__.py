"""Start a session's modules: entry points, order, and the functions to call when all are mounted."""
