"""One session as the host runs it: which module is what, who may do what, and what outlives whom."""
