"""JSON schemas as grammars.

grammar       from a schema to a grammar: open this first
document      the schema by JSON pointers, and errors that name a place in it
keywords      which keywords there are, and which are followed
part          one subschema, read and checked
algebra       references and combinations of subschemas, worked out to shapes of values
shapes        shapes of values, and what two of them have in common
possible      which schemas have a value at all
rules         rules of arrays and objects
terminals     numbers, strings and names as terminals
numbers, digits       numbers between bounds, and multiples
formats       formats of strings, as patterns
json_text, json_patterns  how a guided reply writes JSON
"""
