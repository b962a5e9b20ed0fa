"""Numerical methods shared by hash functions and methods."""
