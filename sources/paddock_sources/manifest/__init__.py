"""What a module's folder says about the module, read as data."""
