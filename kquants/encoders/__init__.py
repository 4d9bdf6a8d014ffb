"""Encoders: rows of float32 to the blocks of each format. Importing this package registers their kernels.

`encode_NAME(source, rows, columns, importance, target, result)`, all int64:

    source      address of float32 [rows, columns], columns a multiple of the format's block
    importance  address of float32 [columns], the weights of the squared errors, or 0
    target      address of the packed rows
    result      address of what `kquants.encoders.results` says

A row's bytes depend on nothing but the row and the importance. `kquants.encode` calls them.
"""

from kquants.encoders import floats as floats
from kquants.encoders import iq4_nl as iq4_nl
from kquants.encoders import q2_k as q2_k
from kquants.encoders import q3_k as q3_k
from kquants.encoders import q4_0 as q4_0
from kquants.encoders import q4_1 as q4_1
from kquants.encoders import q4_k as q4_k
from kquants.encoders import q5_0 as q5_0
from kquants.encoders import q5_1 as q5_1
from kquants.encoders import q5_k as q5_k
from kquants.encoders import q6_k as q6_k
from kquants.encoders import q8_0 as q8_0
