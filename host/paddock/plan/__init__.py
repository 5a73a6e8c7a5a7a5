"""Mount plans: what a person wrote, checked and turned into values."""
