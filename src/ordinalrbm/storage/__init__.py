"""Files: bytes, checked contents, nothing half-written."""
