"""HTTP requests and answers that the host parses, checks and rewrites."""
