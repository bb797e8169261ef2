"""Dense networks."""
