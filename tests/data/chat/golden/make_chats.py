"""Makes chats.jsonl beside it: what the reference renders of every template of chat_templates.py and every conversation
here. A line is [template, conversation, text or null for an error, ranges of generation blocks].
usage: python make_chats.py
"""
import json
import pathlib

from chat_templates import TEMPLATES
from reference import rendered

HERE = pathlib.Path(__file__).parent


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(name, arguments, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather \"now\".", "parameters": {
    "type": "object", "properties": {
        "city": {"type": "string", "description": "Where"}, "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        "days": {"type": "array", "items": {"type": "integer"}}, "where": {"type": ["number", "null"]}},
    "required": ["city"]}}}
DEEP = {"type": "function", "function": {"name": "book", "description": "Bücht <ein> Zimmer & mehr", "parameters": {
    "type": "object", "properties": {
        "guest": {"type": "object", "properties": {"name": {"type": "string"}, "ages": {"type": "array", "items": {"type": "number"}}},
                  "required": ["name"]},
        "rooms": {"type": "array", "items": {"type": "object", "properties": {"beds": {"type": "integer"}}}},
        "any": {"oneOf": [{"type": "string", "default": "x"}, {"type": "boolean", "description": "or so"}]}}}}}
EMPTY = {"type": "function", "function": {"name": "now", "description": "Time", "parameters": {"type": "object", "properties": {}}}}

TALK = [user("Hi there"), assistant("Hello! How can I help?"), user("  Tell me a joke.\n")]
CALLED = [user("Weather in Paris?"), assistant("", tool_calls=[call("get_weather", {"city": "Paris", "days": [1, 2]}, id="abcdefghi")]),
          {"role": "tool", "name": "get_weather", "content": "{\"temp\": 21.5}", "tool_call_id": "abcdefghi"}]
BASE = {"bos_token": "<s>", "eos_token": "</s>", "tools": None, "documents": None, "add_generation_prompt": False}

CONVERSATIONS = [
    {"messages": [user("Hello")], "add_generation_prompt": True},
    {"messages": TALK},
    {"messages": TALK, "add_generation_prompt": True},
    {"messages": [system("Be brief.")] + TALK, "add_generation_prompt": True},
    {"messages": [system("")] + TALK},
    {"messages": [system("Only this")]},
    {"messages": []},
    {"messages": [assistant("I begin"), user("?")]},
    {"messages": [user("one"), user("two"), assistant("three")]},
    {"messages": [{"role": "narrator", "content": "Once"}, user("upon")]},
    {"messages": [{"content": "no role"}, user("x")]},
    {"messages": [{"role": "user"}, assistant("y")]},
    {"messages": [user(None), assistant(None)]},
    {"messages": [user("Zażółć \U0001F600 \u2028 'quoted' \"double\" \\ back\tslash\u200b"), assistant("日本語\r\nline")], "add_generation_prompt": True},
    {"messages": [user([{"type": "text", "text": "What is this? "}, {"type": "image", "image_url": "http://x/y.png"}])], "add_generation_prompt": True},
    {"messages": [system("S")] + CALLED, "tools": [WEATHER], "add_generation_prompt": True},
    {"messages": CALLED + [assistant("21.5 degrees.")], "tools": [WEATHER, DEEP, EMPTY]},
    {"messages": [user("Book")], "tools": [DEEP], "add_generation_prompt": True},
    {"messages": [user("a"), assistant(None, tool_calls=[call("f", "{\"x\": 1}", id="123456789"), call("g", {"y": None}, id="123456780")]),
                  {"role": "tool", "content": "r1", "tool_call_id": "123456789"}, {"role": "tool", "content": "r2", "tool_call_id": "123456780"},
                  user("go on")], "tools": [EMPTY]},
    {"messages": [user("think"), assistant("<think>\nhm, 1+1\n</think>\n\nIt is 2."), user("sure?"),
                  assistant("Yes", reasoning_content="I am", thinking="I am")]},
    {"messages": [user("q"), assistant("answer", reasoning_content="because", thinking="because")], "enable_thinking": False},
    {"messages": [user("q")], "enable_thinking": False, "add_generation_prompt": True, "date_string": "1 Jan 2030", "reasoning_effort": "high"},
    {"messages": [system("/no_think Talk")] + TALK, "documents": [{"title": "A", "text": "first"}, {"title": "Ü", "text": "second\nline"}]},
    {"messages": [user("u"), {"role": "tool", "content": {"b": [1, 2.0, True, None], "a": {"c": "é"}}, "tool_call_id": "1"}], "controls": {"length": "short", "n": 1}},
    {"messages": [user("  \n"), assistant("\n\n spaced \n")], "builtin_tools": ["brave_search", "code_interpreter"], "tools_in_user_message": False, "tools": [WEATHER]},
]


def main():
    lines = [json.dumps(list(TEMPLATES.items()), ensure_ascii=False), json.dumps([{**BASE, **c} for c in CONVERSATIONS], ensure_ascii=False)]
    errors = 0
    for name, source in TEMPLATES.items():
        for number, conversation in enumerate(CONVERSATIONS):
            text, ranges = rendered(source, {**BASE, **conversation})
            errors += text is None
            lines.append(json.dumps([name, number, text, "" if text is None else ranges], ensure_ascii=False, separators=(",", ":")))
    path = HERE / "chats.jsonl"
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 2} renderings, {errors} errors, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
