"""A demonstration: many tasks with a scripted model, a hostile module among the tools, and a driver that is killed."""
