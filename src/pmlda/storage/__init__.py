"""What is kept on disk, written completely or not at all: files without pickle, checkpoints, folders of runs."""
