"""Suggest grants that fit a module, by its kind, configuration and manifest."""
