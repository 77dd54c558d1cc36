"""Import and export: other programs' models as ours, and our models in other programs' file formats."""
