"""Chat templates in the styles of many families: what each one needs of Jinja2 renders as in transformers."""

import importlib.util
from typing import Any

import pytest

from edgellm.errors import EdgeLLMError
from edgellm.text.template import ChatTemplate

PROPERTIES = {"city": {"type": "string", "description": "Wo? <b>é"}, "n": {"type": ["integer", "null"], "enum": [1, 2]}}
PARAMETERS = {"type": "object", "properties": PROPERTIES, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": PARAMETERS}}]
CALL = {"type": "function", "function": {"name": "f", "arguments": {"city": "Zürich", "n": None, "ok": True}}}
SYSTEM, USER = {"role": "system", "content": "  Be brief.\n"}, {"role": "user", "content": "Hi\t<é>\n\n"}
ANSWER = {"role": "assistant", "content": "<think>\nhm\n</think>\n Yes "}
CALLING = {"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": [CALL]}
RESULT = {"role": "tool", "name": "f", "content": "12 °C"}
PARTS = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " Look "}]}
CHATS: dict[str, list[dict[str, Any]]] = {
    "user": [USER],
    "turns": [SYSTEM, USER, ANSWER, USER],
    "calls": [SYSTEM, USER, CALLING, RESULT, ANSWER, USER],
    "parts": [PARTS],
    "twice the same role": [USER, USER],
}

TEMPLATES = {
    # gemma3: the system prompt before the first user message, roles that alternate, content as text or parts.
    "gemma3": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}{%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}{%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {{ '<start_of_turn>' + message['role'].replace('assistant', 'model') + '\n' + (first_user_prefix if loop.first) }}
    {%- if message['content'] is string -%}{{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {{ '<start_of_image>' if item['type'] == 'image' else item['text'] | trim }}
        {%- endfor -%}
    {%- else -%}{{ raise_exception("Invalid content type") }}{%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}""",
    # gemma4: macros that call themselves, dictsort, types of values.
    "gemma4": """{%- macro value(v) -%}
    {%- if v is string -%}<|"|>{{ v }}<|"|>{%- elif v is boolean -%}{{ 'true' if v else 'false' }}
    {%- elif v is mapping -%}{{ '{' }}
        {%- for key, item in v | dictsort -%}{{ ',' if not loop.first }}{{ key }}:{{ value(item) }}{%- endfor -%}
        {{ '}' }}
    {%- elif v is sequence -%}[{%- for item in v -%}{{ value(item) }}{{ ',' if not loop.last }}{%- endfor -%}]
    {%- else -%}{{ v }}{%- endif -%}
{%- endmacro -%}
{%- for tool in tools or [] -%}<|tool>{{ tool.function.name }}{{ value(tool.function.parameters) }}<tool|>{%- endfor -%}
{%- for m in messages -%}
    {%- set ns = namespace(text=m.content | default('', true)) -%}
    {%- if ns.text is not string -%}{%- set ns.text = ns.text | map(attribute='text') | select('string') | join('') -%}
    {%- endif -%}
    <|turn>{{ m.role }}\n{{ ns.text.split('</think>')[-1].lstrip('\n') }}
    {%- for call in m.tool_calls or [] -%}<|tool_call>call:{{ call.function.name }}{{ value(call.function.arguments) }}
    {%- endfor -%}<turn|>
{%- endfor -%}""",
    # phi-4: one line; unknown roles disappear.
    "phi4": "{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + "
    "message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + "
    "message['content'] + '<|im_end|>'}}{% endif %}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}",
    # command-r: Python signatures from JSON schemas, loopcontrols, strings built by ~ and set blocks.
    "command-r": """{%- macro python_type(t) -%}
    {{ {'string': 'str', 'integer': 'int', 'number': 'float'}.get(t, 'Any') if t is string else 'Any' }}
{%- endmacro -%}
{%- set ns = namespace(n=0, words=[]) -%}
{%- for tool in tools or [] %}
def {{ tool['function']['name'] }}(
{%- for name, spec in tool.function.parameters.properties.items() -%}
    {%- if not loop.first %}, {% endif -%}
    {{ name }}: {{ python_type(spec.type) }}{{ ' = None' if name not in tool.function.parameters.required }}
{%- endfor -%}
) -> List[Dict]:
    pass
{% endfor -%}
{%- for message in messages %}
    {%- if message.role == 'tool' %}{% continue %}{% endif %}
    {%- if loop.index > 4 %}{% break %}{% endif %}
    {%- set line %}{{ message.role | upper }}: {{ message.content | string | length }}{% endset %}
    {%- set ns.n = ns.n + 1 %}{%- set ns.words = ns.words + [line] %}
{%- endfor %}
{{- '<|START_OF_TURN_TOKEN|>' ~ ns.n ~ ns.words | join(' ; ') ~ loop_is_gone | default('!') }}
{%- for word in ns.words[::-1] %}{{ loop.revindex0 ~ word[:4] ~ (loop.previtem | default('-'))[-1:] }}{% endfor %}""",
    # granite and llama 3.1: dates, indented JSON, generation marks.
    "granite": """{%- set date = strftime_now('%Y') | int > 2000 -%}
{%- if tools %}<|start_of_role|>tools<|end_of_role|>{{ tools | tojson(indent=4) }}<|end_of_text|>
{% endif -%}
{%- for message in messages -%}
    <|start_of_role|>{{ message.role }}<|end_of_role|>
    {%- if message.role == 'assistant' -%}
        {%- generation -%}{{ message['content'] }}<|end_of_text|>{%- endgeneration -%}
    {%- else -%}{{ message['content'] }}<|end_of_text|>{%- endif %}
    {%- if loop.last and add_generation_prompt %}{{ controls | default({}) | tojson(true, 2) }}{% endif %}
{%- endfor -%}{{ date }}""",
    # glm4: observation, thoughts of earlier turns removed, arguments one by one.
    "glm4": """[gMASK]<sop>
{%- set ns = namespace(last=-1) -%}
{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- for m in messages -%}
    {%- set texts = m.content | selectattr('type', 'equalto', 'text') | list if m.content is not string -%}
    {%- set content = texts or m.content -%}
    {%- if m.role == 'assistant' -%}<|assistant|>
        {%- if m.reasoning_content is defined and loop.index0 > ns.last -%}{{ m.reasoning_content.strip() }}
        {%- elif '</think>' in content -%}{{ (content.split('</think>')|last).strip() }}
        {%- else -%}{{ content }}{%- endif -%}
        {%- for call in m.tool_calls | default([]) %}
{{ '\n<tool_call>' + call.function.name }}
            {%- for k, v in call.function.arguments.items() -%}
                <arg_key>{{ k }}</arg_key>{{ v | tojson(ensure_ascii=False) if v is not string else v }}
            {%- endfor -%}</tool_call>
        {%- endfor -%}
    {%- elif m.role == 'tool' -%}<|observation|>{{ content }}
    {%- else -%}<|{{ m.role }}|>{{ content }}{%- endif -%}
{%- endfor -%}
{{ '<|assistant|>' if add_generation_prompt }}""",
    # harmony: TypeScript from JSON schemas, recursion with an indent, sort and unique.
    "harmony": """{%- macro type_of(spec, depth=1) -%}
    {%- set pad = '  ' * depth -%}
    {%- if spec.type is not string -%}{{ spec.type | sort | unique | join(' | ') if spec.type else 'any' }}
    {%- elif spec.type == 'object' -%}{{ '{\\n' }}
        {%- for name, inner in spec.properties.items() -%}
            {{ pad ~ name ~ ('' if name in (spec.required or []) else '?') ~ ': ' }}
            {{- type_of(inner, depth + 1) ~ ',\\n' }}
        {%- endfor -%}{{ pad[2:] ~ '}' }}
    {%- else -%}{{ spec.type ~ (spec.enum | map('string') | join('|') if spec.enum) }}{%- endif -%}
{%- endmacro -%}
{{- '<|start|>system<|message|>' ~ 'Reasoning: %s, %d' % (reasoning_effort | default('medium'), 3) }}
{%- if tools is iterable and tools | length > 0 %}
{{ '{}: {name}'.format('tools', name=tools[0].function.name) | indent(4) }}
{% for tool in tools %}type {{ tool.function.name | title }} = {{ type_of(tool.function.parameters) }};{% endfor %}
{%- endif %}
{%- for m in messages if m.role != 'system' -%}
    {{- '<|start|>' ~ m.role ~ ('<|channel|>analysis<|message|>' ~ m.thinking ~ '<|end|>' if m.thinking) }}
    {{- m.content if m.content is string else m.content | length }}<|end|>
{%- endfor %}""",
}


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is the oracle")
@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("args", [{}, {"tools": TOOLS, "add_generation_prompt": False, "controls": {"a": "é"}}])
def test_styles_of_families_render_as_in_transformers(name: str, chat: str, args: dict[str, Any]) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    source = TEMPLATES[name]
    names = {"add_generation_prompt": True, **args}
    template = ChatTemplate(source, "<s>", "</s>")
    try:
        texts, _ = render_jinja_template([CHATS[chat]], chat_template=source, bos_token="<s>", **names)
    except Exception as error:
        with pytest.raises(EdgeLLMError) as ours:
            template.render(CHATS[chat], **names)
        assert str(error).removesuffix(".") in str(ours.value)
    else:
        assert template.render(CHATS[chat], **names).text == texts[0]


def test_a_template_that_raises_names_its_reason() -> None:
    with pytest.raises(EdgeLLMError, match="Conversation roles must alternate"):
        ChatTemplate(TEMPLATES["gemma3"], "<s>", "</s>").render(CHATS["twice the same role"])
