"""A chat template, and a conversation whose text it trims."""

CHATML = (
    "{% for m in messages %}"
    "{{ '<|im_start|>' ~ m.role + '\n' + m['content'] | trim + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  Hi <b> é\n"},
    {"role": "assistant", "content": "<think>\nx\n</think>\n\nYes "},
    {"role": "user", "content": "Why?"},
]
