"""Sub-sessions: the requests for them, what they inherit, and their conversations."""
