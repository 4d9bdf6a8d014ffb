"""Regular expressions as syntax trees.

charset   sets of characters
nodes     the trees
ecma      the regular expressions of JSON Schema, parsed
text      trees as regular expressions of Python and of the Rust crate `regex`
"""
