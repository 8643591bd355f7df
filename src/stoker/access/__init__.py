"""Who MAY: callers, passwords, tokens, sessions, permissions."""
