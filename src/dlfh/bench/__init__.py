"""The paper's experiments: what was published, and what is measured.

An experiment is a list of *cells*: one method with its parameters, code length and seed on one split of
one data set. Cells are computed in worker processes and kept in the run's folder by the hash of their
settings, so that a run that was killed goes on where it was, and experiments share what they have in common.

Nothing heavy is imported here, so that the command line can show its help at once.
"""
