"""Statistics that know no model."""
