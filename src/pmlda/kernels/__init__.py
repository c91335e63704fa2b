"""The only compiled code. Every kernel names its NumPy twin (tests.twins), and a test compares the two.

Kernels work on a range of documents or of segments, release the interpreter lock and share nothing, so any number of
threads may run them on separate ranges.
"""
