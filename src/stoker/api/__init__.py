"""HTTP: one table of routes over flow and the readers, strict both ways, one shape for errors."""
