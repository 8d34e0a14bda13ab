"""A package whose kernels take names from its other files."""
