"""The host's own methods, as workers call them: checked, weighed, done."""
