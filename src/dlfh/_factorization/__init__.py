"""The paper's model: section 3 of *Discrete Latent Factor Model for Cross-Modal Hashing*, a file for each idea.

======================  =======================================================================================
`paper`                 Algorithm 1 as the paper writes it, in plain NumPy: the file to read with the paper in hand
`likelihood`            section 3.1, eq. (1): Theta, sigma, the log-likelihood, the bound of eq. (2)
`solver`                section 3.2, Algorithm 1 and Theorem 1, over whatever says which pairs are similar
`supervision`           what the solver asks of S
`label_rows`            S from labels; the updates of eq. (3) to (6), row by row, with a row a point or a label set
`label_codes`           codes of label sets that come later, against those that there are
`label_parts`           more label sets than one machine should hold: the same codes, in parts
`observed_pairs`        S pair by pair, with elements missing; the same updates at the cost of what was observed
======================  =======================================================================================

The hash functions of section 3.3 are in `dlfh.hashing`; `DLFH` and `KDLFH`, which put both together, in
`dlfh.methods`. Section 4 is `dlfh bench`: Figure 1 is ``bench convergence``, Table 1 ``bench map``, Table 2
``bench time``, Figure 2 ``bench sensitivity``.

The paper's letters, and the words that stand for them at the library's boundary:

======  ==================  ===================================================================================
letter  word                what it is
======  ==================  ===================================================================================
c       ``n_bits``          code length
lambda  ``scale``           how sharply similarity depends on Hamming distance
m       ``sample_size``     columns sampled for an update, section 3.2.3
T       ``max_iter``        iterations of Algorithm 1
gamma   ``ridge``           the ridge of linear hash functions, section 3.3
U, V    ``codes_``          codes of two modalities, one row a point (or a label set), entries -1 and +1
S       labels              S_ij = 1 if points i and j share a label, else 0; or given, as ``similarity``
Theta                       Theta_ij = (lambda / c) U_i V_j'
A                           A_ij = sigma(Theta_ij), the probability that i and j are similar
======  ==================  ===================================================================================
"""
