"""The kernels of a mixture of experts around its matmuls, in the order in which a layer runs them.

route        chooses the experts of each row: `scores` or `sparse_mixer` compute scores, `selection` takes the largest
plan         sorts the choices of all rows by expert: each has a slot
read_ahead   has the weights of the chosen experts read from the disk
gather       copies the row of x to each of its slots
combine      adds up the results of the slots of each row, times their weights

A slot is a row of the grouped matmuls (`kquants.matmul.products`): a row of x for one of the experts that it chose.
"""
