"""Start module processes, capture their output, end them and report how they ended.

The package knows neither the protocol on the socket that it hands over nor what a module is.
"""
