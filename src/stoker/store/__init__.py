"""What IS recorded. `base` says what others may ask for; the rest is SQLAlchemy Core."""
