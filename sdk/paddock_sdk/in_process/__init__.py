"""Running modules in the process they are loaded in: no boundary, no sandbox.

For the tests and the programs of module authors; the host loads no module this way. Importing this package imports
nothing.
"""
