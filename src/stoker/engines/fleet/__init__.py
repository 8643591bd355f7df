"""Runs attempts through runners: this machine now, SSH hosts with another transport later."""
