"""A standing attacker: damaged inputs, bad situations and kills, with the real program; see CONTRIBUTING.md.

originals.py writes good inputs, mutators.py damages them, kinds.py says which command reads which; server.py runs the
command, judge.py decides whether it behaved; situations.py and kills.py do the same to runs and to their surroundings.
"""
