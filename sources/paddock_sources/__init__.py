"""Find the code of a module without running any of it."""
