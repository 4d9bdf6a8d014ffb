"""KV pages and attention over them.

`pages` writes keys, after `rope`, and values. `attention` is the kernel: a `querytile` goes through pages with the
`bundles` that `readers` has for their type, which are made of `lanes`, and by way of a `softmax`.
"""
