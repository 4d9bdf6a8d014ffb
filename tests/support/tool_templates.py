"""Small chat templates with tools, in the call syntax of each family. The wording is our own."""

HERMES = """{%- if tools %}<|im_start|>system
Tools: <tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>. Call one as
<tool_call>
{"name": ..., "arguments": ...}
</tool_call><|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}{{ '<|im_start|>user\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for call in m.tool_calls or [] %}
{{- '\\n' if m.content or not loop.first }}{{ '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

QWEN3_CODER = """{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool.function | tojson }}
{% endfor %}Call as <tool_call>, <function=NAME>, <parameter=KEY>.<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}{{ '<|im_start|>user\\n<tool_response>\\n' + m.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for call in m.tool_calls or [] %}
{{- '\\n' if m.content or not loop.first }}{{ '<tool_call>\\n<function=' + call.function.name + '>\\n' }}
{%- for key, value in call.function.arguments | items %}
{{- '<parameter=' + key + '>\\n' }}{{ value if value is string else value | tojson }}{{ '\\n</parameter>\\n' }}
{%- endfor %}{{ '</function>\\n</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def _glm(line_end: str) -> str:
    return f"""[gMASK]<sop>{{%- if tools %}}<|system|>
{{% for tool in tools %}}{{{{ tool | tojson(ensure_ascii=False) }}}}{{% endfor %}}
<tool_call>name{line_end}<arg_key>key</arg_key>{line_end}<arg_value>value</arg_value>{line_end}</tool_call>
{{%- endif -%}}
{{%- for m in messages %}}
{{%- if m.role == 'tool' %}}{{{{ '<|observation|>\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}}}
{{%- else %}}{{{{ '<|' + m.role + '|>\\n' + (m.content or '') }}}}
{{%- for call in m.tool_calls or [] %}}
{{{{- {line_end!r} + '<tool_call>' + call.function.name + {line_end!r} }}}}
{{%- for key, value in call.function.arguments.items() %}}
{{{{- '<arg_key>' + key + '</arg_key>' + {line_end!r} + '<arg_value>' }}}}
{{{{- value if value is string else value | tojson(ensure_ascii=False) }}}}{{{{ '</arg_value>' + {line_end!r} }}}}
{{%- endfor %}}{{{{ '</tool_call>' }}}}
{{%- endfor %}}{{%- endif %}}
{{%- endfor %}}
{{%- if add_generation_prompt %}}<|assistant|>{{% endif %}}"""


DEEPSEEK = """{{ bos_token }}{% for m in messages %}
{%- if m.role == 'user' %}{{ '<｜User｜>' + m.content }}
{%- elif m.role == 'tool' %}{{ '<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>' + m.content }}
{{- '<｜tool▁output▁end｜><｜tool▁outputs▁end｜>' }}
{%- elif m.tool_calls %}{{ '<｜Assistant｜>' + (m.content or '') + '<｜tool▁calls▁begin｜>' }}
{%- for call in m.tool_calls %}
{{- ('' if loop.first else '\\n') + '<｜tool▁call▁begin｜>' + call.type + '<｜tool▁sep｜>' + call.function.name }}
{{- '\\n```json\\n' + call.function.arguments + '\\n```<｜tool▁call▁end｜>' }}
{%- endfor %}{{ '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' }}
{%- else %}{{ '<｜Assistant｜>' + m.content + '<｜end▁of▁sentence｜>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"""

DEEPSEEK_NEWER = """{{ bos_token }}{% for m in messages %}
{%- if m.role == 'user' %}{{ '<｜User｜>' + m.content }}
{%- elif m.role == 'tool' %}{{ '<｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜>' }}
{%- elif m.tool_calls %}{{ '<｜Assistant｜></think>' + m.content + '<｜tool▁calls▁begin｜>' }}
{%- for call in m.tool_calls %}
{{- '<｜tool▁call▁begin｜>' + call.function.name + '<｜tool▁sep｜>' + call.function.arguments + '<｜tool▁call▁end｜>' }}
{%- endfor %}{{ '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' }}
{%- else %}{{ '<｜Assistant｜></think>' + m.content + '<｜end▁of▁sentence｜>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜></think>' }}{% endif %}"""

MISTRAL = """{{ bos_token }}{% for m in messages %}
{%- if m.role == 'user' %}
{{- '[AVAILABLE_TOOLS] ' + tools | tojson + '[/AVAILABLE_TOOLS]' if tools and loop.last }}
{{- '[INST] ' + m.content + '[/INST]' }}
{%- elif m.tool_calls %}{{ '[TOOL_CALLS][' }}
{%- for call in m.tool_calls %}
{%- if call.id | length != 9 %}{{ raise_exception('ids have nine characters') }}{% endif %}
{{- '{"name": "' + call.function.name + '", "arguments": ' }}{{ call.function.arguments | tojson }}
{{- ', "id": "' + call.id + '"}' + ('' if loop.last else ', ') }}
{%- endfor %}{{ ']' + eos_token }}
{%- elif m.role == 'tool' %}
{%- if m.tool_call_id | length != 9 %}{{ raise_exception('ids have nine characters') }}{% endif %}
{{- '[TOOL_RESULTS] {"content": ' + m.content + ', "call_id": "' + m.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- else %}{{ ' ' + m.content + eos_token }}{% endif %}
{%- endfor %}"""

MISTRAL_NEWER = """{{ bos_token }}
{{- '[AVAILABLE_TOOLS]' + tools | tojson + '[/AVAILABLE_TOOLS]' if tools }}{% for m in messages %}
{%- if m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}
{%- elif m.role == 'tool' %}{{ '[TOOL_RESULTS]' + m.tool_call_id + '[TOOL_CONTENT]' + m.content + '[/TOOL_RESULTS]' }}
{%- else %}{{ m.content }}
{%- for call in m.tool_calls or [] %}
{{- '[TOOL_CALLS]' + call.function.name + '[ARGS]' }}{{ call.function.arguments | tojson }}
{%- endfor %}{{ eos_token }}{% endif %}
{%- endfor %}"""

LLAMA3 = """{{ bos_token }}{% for m in messages %}
{%- set role = 'ipython' if m.role == 'tool' else m.role %}
{{- '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' }}
{%- if loop.first and tools %}{% for tool in tools %}{{ tool | tojson(indent=4) }}{{ '\\n\\n' }}{% endfor %}{% endif %}
{%- if m.tool_calls %}
{%- if m.tool_calls | length != 1 %}{{ raise_exception('one call at a time') }}{% endif %}
{{- '{"name": "' + m.tool_calls[0].function.name + '", "parameters": ' }}
{{- m.tool_calls[0].function.arguments | tojson }}}
{%- elif m.role == 'tool' %}{{ m.content | tojson }}
{%- else %}{{ m.content | trim }}{% endif %}{{ '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

GEMMA4 = """{%- macro value(v) -%}
    {%- if v is string -%}{{ '<|"|>' + v + '<|"|>' }}
    {%- elif v is boolean -%}{{ 'true' if v else 'false' }}
    {%- elif v is none -%}null
    {%- elif v is mapping -%}{{ '{' }}
        {%- for key, item in v | dictsort -%}{{ ',' if not loop.first }}{{ key }}:{{ value(item) }}{%- endfor -%}
        {{ '}' }}
    {%- elif v is iterable -%}[
        {%- for item in v -%}{{ ',' if not loop.first }}{{ value(item) }}{%- endfor -%}]
    {%- else -%}{{ v }}{%- endif -%}
{%- endmacro -%}
{{ bos_token }}
{%- for tool in tools or [] %}
{{- '<|tool>declaration:' + tool.function.name }}{{ value(tool.function) }}<tool|>
{%- endfor %}
{%- for m in messages %}
{{- '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + (m.content or '') | trim }}
{%- for call in m.tool_calls or [] %}
{{- '<|tool_call>call:' + call.function.name }}{{ value(call.function.arguments) }}<tool_call|>
{%- endfor %}{{ '<turn|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|turn>model\\n' }}{% endif %}"""

LFM2 = """{%- macro written(v) -%}{{ v if v is boolean else v | tojson }}{%- endmacro -%}
{{ bos_token }}{% if tools %}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{% endif %}
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- if m.tool_calls %}{{ '<|tool_call_start|>[' }}
{%- for call in m.tool_calls %}{{ (', ' if not loop.first else '') + call.function.name + '(' }}
{%- for key, value in call.function.arguments.items() %}
{{- (', ' if not loop.first else '') + key + '=' + written(value) }}
{%- endfor %}{{ ')' }}{% endfor %}{{ ']<|tool_call_end|>' }}{% endif %}{{ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

COMMAND_R = """{{ bos_token }}{% for tool in tools or [] %}{{ tool.function | tojson }}{% endfor %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><|START_TOOL_RESULT|>
{{- m.content }}<|END_TOOL_RESULT|>
{%- elif m.tool_calls %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_ACTION|>[
{% for call in m.tool_calls %}
{{- '    {"tool_call_id": "' ~ loop.index0 ~ '", "tool_name": "' + call.function.name + '", "parameters": ' }}
{{- call.function.arguments | tojson }}}{{ '\\n' if loop.last else ',\\n' }}
{%- endfor %}]<|END_ACTION|>
{%- else %}{{ '<|START_OF_TURN_TOKEN|><|' + m.role | upper + '_TOKEN|>' + m.content }}{% endif %}<|END_OF_TURN_TOKEN|>
{%- endfor %}
{%- if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"""

GRANITE = """{%- if tools %}<|start_of_role|>available_tools<|end_of_role|>{{ tools | tojson(indent=4) }}<|end_of_text|>
{% endif %}
{%- for m in messages %}
{{- '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + '<|end_of_text|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}"""

FUNCTIONARY = """{{ bos_token }}{% for tool in tools or [] %}{{ tool.function | tojson }}{% endfor %}
{%- for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}
{%- if m.role == 'assistant' %}{{ '>>>all\\n' + m.content if m.content }}
{%- for call in m.tool_calls or [] %}{{ '>>>' + call.function.name + '\\n' + call.function.arguments }}{% endfor %}
{%- else %}{{ m.content }}{% endif %}{{ '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n>>>' }}{% endif %}"""

FUNCTIONARY_TAGGED = """{{ bos_token }}{% for tool in tools or [] %}{{ tool.function | tojson }}{% endfor %}
{%- if tools %}Reply as <function=name>{"key": "value"}</function>{% endif %}
{%- for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + (m.content or '') }}
{%- for call in m.tool_calls or [] %}
{{- '<function=' + call.function.name + '>' + call.function.arguments + '</function>' }}
{%- endfor %}{{ '<|eom_id|>' if m.tool_calls else '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

HARMONY = """{%- for tool in tools or [] %}{{ tool.function | tojson }}{% endfor %}
{%- for m in messages %}
{%- if m.role == 'tool' %}
{{- '<|start|>functions.' + m.name + ' to=assistant<|channel|>commentary<|message|>' + m.content | tojson + '<|end|>' }}
{%- elif m.tool_calls %}
{{- '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' if m.thinking }}
{%- for call in m.tool_calls %}
{{- '<|start|>assistant<|channel|>commentary to=functions.' + call.function.name + ' <|constrain|>json<|message|>' }}
{{- call.function.arguments | tojson }}{{ '<|call|>' }}
{%- endfor %}
{%- elif m.role == 'assistant' %}{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
{%- else %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"""

TEMPLATES = {
    "hermes": HERMES,
    "qwen3_coder": QWEN3_CODER,
    "glm": _glm("\n"),
    "glm 4.7": _glm(""),
    "deepseek": DEEPSEEK,
    "deepseek V3.1": DEEPSEEK_NEWER,
    "mistral": MISTRAL,
    "mistral v11": MISTRAL_NEWER,
    "llama3": LLAMA3,
    "gemma4": GEMMA4,
    "lfm2": LFM2,
    "command_r": COMMAND_R,
    "granite": GRANITE,
    "functionary": FUNCTIONARY,
    "functionary v3.1": FUNCTIONARY_TAGGED,
    "harmony": HARMONY,
}
"""A template for each format, by the format's name."""
