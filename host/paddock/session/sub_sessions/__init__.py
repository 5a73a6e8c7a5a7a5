"""Sessions that a session starts for its modules: requests, what they inherit, their conversations."""
