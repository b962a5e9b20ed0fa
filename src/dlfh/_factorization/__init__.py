"""The model of the paper *Discrete Latent Factor Model for Cross-Modal Hashing*, sections 3.1 and 3.2.

======================  =======================================================================================
`paper`                 Algorithm 1 as printed, in plain NumPy; read this first, with the paper at hand
`likelihood`            section 3.1, eq. (1): Theta, sigma, the log-likelihood, the bound of eq. (2)
`solver`                section 3.2: Algorithm 1 and Theorem 1; eq. (3) to (6) for S from labels
`observed_pairs`        S from observed pairs: eq. (3) to (6) at a cost proportional to the observed entries
`label_set_codes`       eq. (3) for new label sets, with the learned codes fixed
`partitioned`           eq. (5) and (6) for label sets partitioned across workers
======================  =======================================================================================

The hash functions of section 3.3 are in `dlfh.hashing`; `DLFH` and `KDLFH`, which combine both, in
`dlfh.methods`. Section 4 is `dlfh bench`: Figure 1 is ``bench convergence``, Table 1 ``bench map``, Table 2
``bench time``, Figure 2 ``bench sensitivity``.

The paper's letters, and the names used for them in the public interface:

======  ==================  ===================================================================================
letter  name                meaning
======  ==================  ===================================================================================
c       ``n_bits``          code length
lambda  ``scale``           how sharply similarity depends on Hamming distance
m       ``sample_size``     columns sampled for an update, section 3.2.3
T       ``max_iter``        iterations of Algorithm 1
gamma   ``ridge``           the ridge of linear hash functions, section 3.3
U, V    ``codes_``          codes of two modalities, one row per point (or label set), entries -1 and +1
S       labels              S_ij = 1 if points i and j share a label, else 0; or given as ``similarity``
Theta                       Theta_ij = (lambda / c) U_i V_j'
A                           A_ij = sigma(Theta_ij), the probability that i and j are similar
======  ==================  ===================================================================================
"""
