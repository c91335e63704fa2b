"""What is kept on disk: files without pickle, written whole or not at all; checkpoints; folders of runs."""
