"""The reference that templates are compared with: jinja2 3.1.6, set up as transformers 5.24 does, with a clock that stands
still. make_chats.py and make_programs.py beside it use it.
"""
import datetime
import json

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2024, 7, 26, 9, 5, 7)


class Generation(Extension):
    """{% generation %}: notes which characters of the text its body wrote."""
    tags = {"generation"}

    def __init__(self, environment):
        super().__init__(environment)
        environment.pieces, environment.ranges = [], []

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_note"), [], [], body).set_lineno(line)

    def _note(self, caller):
        text = caller()
        begin = len("".join(self.environment.pieces))
        self.environment.ranges.append((begin, begin + len(text)))
        return text


class TemplateDict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


class TemplateNamespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        names = dict(*args, **kwargs)
        for name in names:
            TemplateNamespace.check(name)
        jinja2.utils.Namespace.__init__(self, names)

    def __setitem__(self, name, value):
        TemplateNamespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def compiled(source):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals.update(raise_exception=raise_exception, strftime_now=lambda form: NOW.strftime(form),
                               dict=TemplateDict(), namespace=TemplateNamespace)
    return environment.from_string(source)


def rendered(source, variables):
    """The text, and the ranges of generation blocks in bytes; None and the error where there is one."""
    try:
        template = compiled(source)
        environment = template.environment
        del environment.pieces[:], environment.ranges[:]
        for piece in template.generate(**variables):
            environment.pieces.append(piece)
        text = "".join(environment.pieces)
        data = text.encode()  # an error for halves of characters
        size = lambda count: len(text[:count].encode())
        return data.decode(), "".join(f"{size(a)}-{size(b)}," for a, b in environment.ranges)
    except Exception as error:  # whatever a template brings about
        return None, f"{type(error).__name__}: {error}"
