"""Secrets: where the operator keeps them, and how their values stay hidden."""
