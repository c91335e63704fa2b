"""A segmentation → figures, a report, and a folder that holds all of it; and back."""
