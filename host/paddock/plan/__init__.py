"""Mount plans: a person's text, checked and turned into values."""
