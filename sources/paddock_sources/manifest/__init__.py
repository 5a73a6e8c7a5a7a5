"""A module folder's declarations about the module, read as data."""
