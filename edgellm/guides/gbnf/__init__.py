"""Grammars of llama.cpp (GBNF) as grammars of llguidance.

https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md has the syntax.

parser     the rules as syntax trees
finite     the rules that have texts
words      which parts of the rules llguidance reads as words, and the grammar in Lark's syntax: open this first
automaton  finite automata of words
flow       which words follow each other
"""
