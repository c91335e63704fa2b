"""Tuning constants of engine "variational": how many words, sweeps and steps, and why so many.

They trade time for accuracy and change no posterior. Guards against rounding and overflow stand in kernels/, beside the
arithmetic that they guard.
"""

# ── topics, from a sample of the words ─────────────────────────────────────────────────────────────────────────────
# Starts differ in their k-means and in how tightly topics are held.
SPREAD_PARTS = (1 / 16, 1.0, 1 / 16, 1 / 64)
# Initialisations are compared by their bounds after TRIAL_SWEEPS sweeps over a subsample of TRIAL_WORDS words. Where
# topics creep along ridges, they share these sweeps, and half of them drop out after each round.
TRIAL_WORDS, TRIAL_SWEEPS = 4_000, 20
# Topics are learnt from the best initialisation on a subsample of this size.
SAMPLE_WORDS = 16_000
# A sampled document keeps at least this many words, from which its proportions and scale can be told.
DOCUMENT_WORDS = 200

# ── sweeps ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# Newton steps for each document, and function evaluations for topics without a closed form, per sweep.
DOCUMENT_STEPS = 3
TOPIC_EVALUATIONS = 6
# Newton's step of topics is shortened by this part, so many times at most, where the bound would fall.
TOPIC_SHORTER, TOPIC_TRIALS = 0.3, 6
# Steps of rates that add, per sweep; each takes a visit to the counts, which is as long as a step of all words.
RATE_STEPS = 2
# Extrapolations keep ln a within these: the prior on a scale that nothing pulls on lets s drift, and beyond the first a
# document's words are all alike.
LARGEST_LOG, SMALLEST_LOG = 14.0, -18.0

# An extrapolation multiplies or divides no number of a word's γ by more than e to the power of this.
FARTHEST_WORD = 1.0

# Where topics creep along ridges, a fit stops only when at least this number of sweeps gained next to nothing.
LEAST_SETTLED = 10

# ── every word, once topics are known ──────────────────────────────────────────────────────────────────────────────
# The first sweep over all words makes FIRST_STEPS steps for each; at most FULL_SWEEPS sweeps of LATER_STEPS follow,
# until a sweep gains less than SETTLED per word. What moves later are memberships too small to be seen: the error of
# memberships is then within one percent of what it would be after thirty more sweeps.
FIRST_STEPS, LATER_STEPS, FULL_SWEEPS, SETTLED = 5, 1, 8, 0.03
# Steps of words that depend on nothing but what is known.
ALONE_STEPS = 10
# Sweeps over each batch of a stream, and over documents whose topics are known: memberships are then within 0.005 of
# where hundreds of sweeps would bring them.
BATCH_SWEEPS = 15
DOCUMENT_SWEEPS = 15

# Steps of every word under the topics of a draw, from where it is under the mean of all draws: memberships then differ
# by 0.0003 on average from those after ten.
DRAW_STEPS = 3

# ── refits ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# Starts of each refit, its words, at least so many of each document, and its tolerance in units of the fit's: what is
# left out at random is one more reason for refits to differ.
REFIT_STARTS, REFIT_SAMPLE, REFIT_LEAST, REFIT_TOL = 2, 2_500, 20, 3.0
# With fewer documents than this, words are resampled instead of documents.
LEAST_RESAMPLED = 8
# Under the topics of a refit, documents start with this share of their proportions moved to one topic. Then come sweeps
# over some words of each document, and a step of every word from where it was found without refits: two where there are
# more topics than features can tell apart, because memberships that no feature tells move little in one.
REFIT_MOVE, REFIT_SWEEPS, REFIT_WORDS, REFIT_STEPS = 0.3, 6, 250, (1, 2)
