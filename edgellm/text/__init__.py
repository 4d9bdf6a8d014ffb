"""Text: tokenizers and chat templates.

tokenizer        text to token ids and back, for one GGUF file
special_tokens   cutting a text at control tokens and user-defined tokens
subword_model    which of the three subword models a file has
bpe              the subword model "gpt2": byte-level BPE
character_bpe    the subword model "gemma4": BPE over characters, with byte fallback
spm              the subword model "llama": BPE over characters by scores, as SentencePiece does
merges           the merges of a BPE vocabulary
pretokenizers    the named pre-tokenizers, with the regular expressions of `word_patterns`
vocabulary       token texts, types and special ids of a file, checked
detokenizer      incremental detokenizing: token ids in, whole characters out
template         chat templates: messages in, text out; rendering runs in a child process (`rendering`)
reply_format     how replies tell thinking from answers: `harmony`, `thought_channel`, or <think> … </think> (`thought`)
thought_reader   replies with other marks around thoughts, as text with <think> … </think>
thinking_tags    the marks between which a reply thinks, by its chat template
rendered_prompt  a rendered prompt, with the origin of each character
prompts          chat template and tokenizer together: messages in, token ids out
inspection       a prompt in detail, for people
utf8, nfc, json_values  text that UTF-8 can encode, Unicode normalization, values that JSON can represent
"""
