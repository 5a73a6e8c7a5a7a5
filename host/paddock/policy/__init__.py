"""Decide what a module may do and use: turn a plan entry into a profile and limits, or refuse it with place and fix.

The policy starts and changes nothing, and a module's own statements decide nothing.
"""
