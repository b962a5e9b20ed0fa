"""Label probabilities: how likely each label is for a point, and rankings by them.

`curves` turns the scores of a regression into probabilities, `model` holds those of a fitted method, `scores` combines
the probabilities of a query and an item, and `quantizer` stores an item's probabilities in a few bytes.
"""
