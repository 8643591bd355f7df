"""What SHOULD happen. Pure: a view and a time in, a plan out."""
