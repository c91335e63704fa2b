"""Tuning constants of engine "gibbs": candidates and rounds of a sweep, chosen by effective sample size per second.

They change how fast chains mix and never what they draw from. Guards against rounding and overflow stand in kernels/,
beside the arithmetic that they guard.
"""

# Candidates for each word: as many as memory allows, within these limits.
MOST_CANDIDATES, LEAST_CANDIDATES = 4, 3
CANDIDATE_BYTES = 2**28
# Candidates are learnt at these parts of the warm-up, each time from the sweeps since the last, if they are enough.
LEARNING_TIMES, LEAST_LEARNT_FROM = (1 / 8, 1 / 4, 1 / 2), 16
# Rounds of each document's walk, steps of the topics' walk, rounds of stretches and of exchanges, per sweep.
DOCUMENT_ROUNDS, TOPIC_STEPS, STRETCH_ROUNDS, TRANSFER_ROUNDS = 1, 8, 3, 2
# Topics without a conjugate prior walk all together up to this many numbers, otherwise one by one.
MOST_TOGETHER = 64
