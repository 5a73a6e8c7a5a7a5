"""The commands for authors of modules: new, validate, test."""
