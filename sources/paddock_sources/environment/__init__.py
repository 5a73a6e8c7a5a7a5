"""The packages that modules depend on: requirements, chosen versions, and the folders with the packages.

Nothing of a package is executed: no build, no setup script, no import. Importing this package imports nothing else: a
module whose packages are all in the cache needs little of it.
"""
