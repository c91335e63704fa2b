"""A segmentation → figures, a report, and a folder or files that hold all of it; and back."""
