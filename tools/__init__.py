"""Programs for those who work on skgp; not part of the package."""
