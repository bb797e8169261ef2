"""Where hidden layers are evaluated, and with which weights."""
