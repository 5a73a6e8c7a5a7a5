"""What a plan's modules may have: what is asked for, what the operator gives, and what the policy allows."""
