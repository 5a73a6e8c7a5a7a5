"""Run untrusted plug-in modules, each in a process of its own."""
