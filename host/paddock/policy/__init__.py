"""Decide what a module may do and use: a plan entry turned into a profile and limits, or refused with place and fix.

Nothing is started or changed here, and nothing decided by what a module says of itself.
"""
