"""What a module's folder declares about the module, read as data."""
