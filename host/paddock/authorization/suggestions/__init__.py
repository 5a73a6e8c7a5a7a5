"""What would fit a module: grants that follow from its kind, configuration and manifest."""
