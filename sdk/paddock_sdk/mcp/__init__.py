"""The Model Context Protocol, as much of it as tools need, with the standard library alone.

Both eras are spoken: versions up to 2025-11-25, which begin with `initialize`, and 2026-07-28, where each request says
its version. What the other side sends is untrusted: it is read with bounds, and what is wrong is refused by name.
"""
