"""The rules that an evaluation applies, each to one subject, and what they find."""
