"""Tests of label probabilities."""
