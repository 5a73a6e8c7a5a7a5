"""Bring a session's modules up: entry points, order, and what is called when all are there."""
