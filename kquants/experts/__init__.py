"""Mixtures of experts: which experts compute a row, and the way of its values to them and back.

route        the experts of each row, by the scores of `scores` or `sparse_mixer` and the choice of `selection`
plan         the slots of all rows, sorted by expert
read_ahead   the weights of the chosen experts, from the disk
gather       what each slot reads
combine      the weighted sum of each row's slots
"""
