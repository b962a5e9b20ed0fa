"""Shared mathematics: what hash functions and methods both stand on."""
