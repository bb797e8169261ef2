"""What is maximised."""
