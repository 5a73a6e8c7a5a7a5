"""What calls, events, starts, memory and payloads cost, beside references that run in between."""
