"""Guides: what may come next in a reply that must conform to a JSON schema, a regex, a grammar or a list of choices.

guide           the protocol of guides, and of factories that make one for each reply
spec            what a reply must conform to, as the options say it
compile         from that to a factory of guides, for one tokenizer
vocabulary      the bytes of each token, and how the model's tokenizer writes a text, for llguidance
grammar_guide   a guide that follows a grammar of llguidance
mask_ahead      masks that a thread computes while the engine computes
utf8_filter     tokens that leave a text valid UTF-8
thinking        how a model thinks before it answers, by its chat template
thinking_gate   a guide that lets a model think first, with `closing`: the end of thinking as tokens or text
limited_channel a guide that limits the thinking of gpt-oss where its grammar covers that
free_text, opened  guides that allow every text, and that begin where the model chooses to
schema          JSON schemas as llguidance follows them, and refusals of what it does not follow
patterns        regular expressions of ECMAScript as llguidance reads them
gbnf, lark      grammars in the syntax of llama.cpp and in Lark's
python_types, parsed  JSON schemas of classes, and values of these from answers
"""
