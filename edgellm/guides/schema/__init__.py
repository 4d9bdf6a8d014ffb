"""JSON schemas, made ready for llguidance, which compiles them.

prepare       a schema as llguidance gets it, and errors for what no guide follows: open this first
document      the schema by JSON pointers, and errors that name a place in it
keywords      which keywords there are, and which are followed
limits        numbers: bounds, and which numbers a schema may have
exclusion     which schemas of a oneOf exclude each other
formats       formats of strings
json_check    whether a value is valid against a schema, with `json_equality`: which values are the same
"""
