"""The control socket of a running session: what its operator may ask and do, from another process of the same user."""
