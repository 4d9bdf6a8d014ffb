"""Text: tokenizers and chat templates.

tokenizer        text to token ids and back, for one GGUF file
special_tokens   cutting a text at control tokens and user-defined tokens
bpe, spm         the two subword models: byte-level BPE ("gpt2") and SentencePiece-style BPE ("llama")
pretokenizers    the regular expressions of each named pre-tokenizer
vocabulary       token texts, types and special ids of a file, checked
detokenizer      incremental detokenizing: token ids in, whole characters out
template         chat templates: messages in, text out; rendering runs in a child process (`rendering`)
rendered_prompt  a rendered prompt, with the origin of each character
prompts          chat template and tokenizer together: messages in, token ids out
inspection       a prompt in detail, for people
utf8, nfc, json_values  text that UTF-8 can encode, Unicode normalization, values that JSON can represent
"""
