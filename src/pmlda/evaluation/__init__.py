"""How good it is: made-up scenes with known memberships, models side by side, the paper's experiments."""
