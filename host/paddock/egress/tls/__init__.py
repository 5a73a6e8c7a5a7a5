"""TLS as the host meets it: what clients say first, streams over it, certificates for injected keys."""
