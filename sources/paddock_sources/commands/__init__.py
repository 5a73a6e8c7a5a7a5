"""The interface to programs that handle untrusted data, and the bounds of their output."""
