"""The command `init`: choose a provider and modules, and write a plan that runs."""
