"""The host's own methods, as workers call them: each request is checked and counted, then carried out."""
