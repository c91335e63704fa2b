"""Maps against truth: ROC, membership error after matching topics, overlap, calibration of intervals."""
