"""Makes programs.jsonl beside it: random templates and what the reference renders of them. The first line has the
variables; another is [template, text or null for an error, ranges of generation blocks].
usage: python make_programs.py [count [seed [file]]]
"""
import json
import pathlib
import random
import sys

from reference import rendered

VARIABLES = {
    "n": 7, "m": -3, "x": 2.5, "t": True, "none_": None, "s": "Hello World", "u": "Grüße, ß Straße 日本", "w": "  two  words \n", "e": "",
    "l": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"], "d": {"b": 1, "a": {"z": [1, 2.0, None]}, "items": 5, "k": "v"},
    "rows": [{"r": "user", "c": "one", "v": 3}, {"r": "tool", "c": "two", "v": 1}, {"r": "user", "c": "", "v": 2}], "mixed": [1, "a", None, 1.5, [2]],
}
TEXT = ["s", "u", "w", "e", "'it\\'s'", '"a,b;c"', "'%s'", "words[0]", "rows[0].c", "d.k", "'x\\ty\\n'", "'{}'"]
NUMBER = ["n", "m", "x", "0", "1", "2", "10", "3.0", "-1", "1e3", "0.1", "t", "l[0]", "loop.index", "ns.i"]
LIST = ["l", "words", "rows", "mixed", "[]", "[1, 'a']", "(1, 2)", "range(4)", "d.a.z", "s", "d", "d.items()", "none_", "q"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, options):
        return self.random.choice(options)

    def any(self, depth):
        return self.pick([self.text, self.text, self.number, self.number, self.list, self.truth, self.odd])(depth)

    def odd(self, depth):
        return self.pick(["none_", "q", "q.x", "d", "d.nope", "rows[5]", "l[-1]", "true", "none", "namespace(a=1).a", "{'a': 1, 2: [3]}", "'é' ~ 1.0", "(1,)",
                          "d['items']", "s.__class__", "x|round", "joined", "mac(1)", "[[], {}, ()]"])

    def text(self, depth):
        if depth <= 0:
            return self.pick(TEXT)
        t, n = (lambda: self.text(depth - 1)), (lambda: self.number(depth - 1))
        return self.pick([
            lambda: f"{t()} + {t()}", lambda: f"({self.any(depth - 1)} ~ {self.any(depth - 1)})", lambda: f"{t()}[{n()}:{n()}]", lambda: f"{t()}[::{self.pick(['-1', '2', '-2'])}]",
            lambda: f"{t()}|{self.pick(['upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'e', 'safe', 'reverse', 'indent', 'center(20)', 'indent(2, true)', 'truncate(8)', 'wordcount', 'length', 'int', 'float', 'list', 'first', 'last'])}",
            lambda: f"({t()}).{self.pick(['upper', 'lower', 'title', 'capitalize', 'strip', 'lstrip', 'rstrip', 'swapcase', 'split', 'splitlines', 'isdigit', 'isupper', 'isalpha', 'rsplit'])}()",
            lambda: f"{t()}.replace({t()}, {t()})", lambda: f"{t()}.split({t()})", lambda: f"{t()}.split({self.pick(TEXT)}, {self.pick(['1', '2', '0', '-1'])})[0]", lambda: f"{t()}.rsplit(none, 1)",
            lambda: f"{t()}.{self.pick(['find', 'rfind', 'count', 'index', 'startswith', 'endswith', 'strip', 'removeprefix', 'partition', 'rpartition', 'lstrip'])}({t()})",
            lambda: f"{t()}.join({self.list(depth - 1)})", lambda: f"{self.list(depth - 1)}|join({t()})", lambda: f"{self.any(depth - 1)}|tojson({self.pick(['', 'indent=2', 'sort_keys=true', 'ensure_ascii=true'])})",
            lambda: f"{t()} * {self.pick(['2', '0', 'n'])}", lambda: f"({t()} if {self.truth(depth - 1)} else {t()})", lambda: f"({t()} if {self.truth(depth - 1)})", lambda: f"{self.any(depth - 1)}|default({t()}, {self.pick(['true', 'false'])})",
            lambda: f"'{self.pick(['%s', '%d', '%.2f', '%5s|', '%-6r', '%05d', '%x', '%g', '%e', '%%'])}' % {self.any(depth - 1)}", lambda: f"'{{}}-{{0}}'.format({t()})", lambda: f"'{{}}-{{}}'.format({self.any(depth - 1)}, {t()})",
            lambda: f"{t()}|replace({t()}, {t()})"])()

    def number(self, depth):
        if depth <= 0:
            return self.pick(NUMBER)
        n = lambda: self.number(depth - 1)
        return self.pick([
            lambda: f"{n()} {self.pick(['+', '-', '*', '/', '//', '%'])} {n()}", lambda: f"({n()} {self.pick(['+', '-', '*', '//', '%'])} {n()})", lambda: f"-{n()}", lambda: f"{self.pick(NUMBER)} ** {self.pick(['2', '0', '-1', '0.5'])}",
            lambda: f"({n()})|{self.pick(['abs', 'int', 'round', 'float', 'round(1)', 'string', 'round(method=chr)'.replace('chr', repr('floor')), 'round(1, ' + repr('ceil') + ')'])}",
            lambda: f"{self.list(depth - 1)}|{self.pick(['length', 'count', 'sum', 'min', 'max', 'first', 'last'])}", lambda: f"{self.text(depth - 1)}|length", lambda: f"({n()} if {self.truth(depth - 1)} else {n()})"])()

    def truth(self, depth):
        if depth <= 0:
            return self.pick(["t", "true", "false", "n > 3", "q is defined", "e", "none_", "l", "loop.last", "loop.first"])
        a = lambda: self.any(depth - 1)
        return self.pick([
            lambda: f"{self.number(depth - 1)} {self.pick(['<', '>', '<=', '>=', '==', '!='])} {self.number(depth - 1)}", lambda: f"{a()} == {a()}", lambda: f"{self.text(depth - 1)} in {self.text(depth - 1)}", lambda: f"{a()} not in {self.list(depth - 1)}",
            lambda: f"{a()} is {self.pick(['', 'not '])}{self.pick(['defined', 'undefined', 'none', 'string', 'number', 'integer', 'float', 'boolean', 'mapping', 'sequence', 'iterable', 'true', 'false', 'callable', 'upper', 'lower', 'sameas(none)', 'in(l)', 'eq 1', 'escaped'])}",
            lambda: f"{self.number(depth - 1)} is {self.pick(['odd', 'even', 'divisibleby 3', 'gt 2', 'le(1)'])}", lambda: f"not {self.truth(depth - 1)}", lambda: f"({self.truth(depth - 1)} {self.pick(['and', 'or'])} {self.truth(depth - 1)})", lambda: f"0 < {self.number(depth - 1)} <= 5"])()

    def list(self, depth):
        if depth <= 0:
            return self.pick(LIST)
        inner = lambda: self.list(depth - 1)
        return self.pick([
            lambda: f"{inner()}|{self.pick(['list', 'reverse', 'sort', 'unique', 'items', 'batch(2)', 'slice(2)', 'sort(reverse=true)', 'dictsort', 'sort(case_sensitive=true)', 'batch(2, 0)'])}|list", lambda: f"{inner()}[{self.number(0)}:{self.number(0)}]",
            lambda: f"{inner()}[::-1]", lambda: f"rows|{self.pick(['map(attribute=' + repr('c') + ')', 'selectattr(' + repr('v') + ', ' + repr('gt') + ', 1)', 'rejectattr(' + repr('r') + ', ' + repr('equalto') + ', ' + repr('user') + ')', 'sort(attribute=' + repr('v') + ')', 'groupby(' + repr('r') + ')', 'map(' + repr('tojson') + ')', 'selectattr(' + repr('c') + ')', 'map(attribute=' + repr('z') + ', default=0)'])}|list",
            lambda: f"{inner()}|{self.pick(['map', 'select', 'reject'])}({self.pick([repr('upper'), repr('string'), repr('odd'), repr('none'), repr('length'), repr('trim')])})|list", lambda: f"{inner()} + {inner()}", lambda: f"[{self.any(depth - 1)}, {self.any(depth - 1)}]",
            lambda: f"d.{self.pick(['keys', 'values', 'items'])}()", lambda: f"dict(a={self.any(depth - 1)}, b=2)", lambda: f"({self.any(depth - 1)}, {self.any(depth - 1)})"])()

    def space(self):
        return self.pick(["", "", " ", "\n", "\n  ", "text ", "  <b>", "\n\n", "é\n\t"])

    def tag(self, inside):
        return "{%" + self.pick(["", "", "", "-", "+"]) + f" {inside} " + self.pick(["", "", "", "-", "+"]) + "%}" + self.space()

    def statement(self, depth, loops):
        kinds = ["print"] * 5 + ["set", "set", "comment", "raw", "ns"]
        if depth > 0:
            kinds += ["if", "for", "for", "macro", "setblock", "filter", "with", "call", "generation", "loopif"]
        if loops:
            kinds += ["jump"]
        return self.space() + getattr(self, "s_" + self.pick(kinds))(depth - 1, loops)

    def body(self, depth, loops):
        return "".join(self.statement(depth, loops) for _ in range(self.random.randint(1, 3)))

    def s_print(self, depth, loops):
        return "{{" + self.pick(["", "-"]) + f" {self.any(self.random.randint(0, 2))} " + self.pick(["", "-"]) + "}}"

    def s_set(self, depth, loops):
        return self.tag(f"set {self.pick(['a', 'b', 'n', 'joined', 'a, b'])} = {self.any(1)}")

    def s_ns(self, depth, loops):
        return self.tag(f"set ns.i = ns.i {self.pick(['+', '-', '*'])} {self.number(0)}") + "{{ ns.i }}"

    def s_comment(self, depth, loops):
        return self.pick(["{# c #}", "{#- c -#}", "{#- c #}\n", "{# c\n#}\n"])

    def s_raw(self, depth, loops):
        return self.pick(["{% raw %}{{ x }}{% endraw %}", "{%- raw -%} {% x %} {%- endraw -%}", "  {% raw %}\n a {% endraw %}\n"])

    def s_if(self, depth, loops):
        out = self.tag(f"if {self.truth(1)}") + self.body(depth, loops)
        if self.pick([0, 1]):
            out += self.tag(f"elif {self.truth(1)}") + self.body(depth, loops)
        if self.pick([0, 1]):
            out += self.tag("else") + self.body(depth, loops)
        return out + self.tag("endif")

    def s_loopif(self, depth, loops):
        return self.tag(f"for i in {self.list(0)} if {self.truth(1)}") + "{{ loop.index }}{{ loop.length }}{{ i }}" + self.body(depth, True) + self.tag("else") + "none" + self.tag("endfor")

    def s_for(self, depth, loops):
        head = self.pick(["i", "i", "a, b", "k, v"])
        source = "d.items()" if head == "k, v" else self.list(1)
        shown = self.pick(["", "{{ i }}{{ loop.index0 }}", "{{ loop.revindex }}{{ loop.last }}", "{{ loop.previtem }}{{ loop.nextitem }}", "{{ loop.cycle('x', 'y') }}", "{{ loop.changed(i) }}"])
        return self.tag(f"for {head} in {source}") + shown + self.body(depth, True) + self.pick(["", self.tag("else") + "E"]) + self.tag("endfor")

    def s_jump(self, depth, loops):
        return self.tag(f"if {self.truth(0)}") + self.tag(self.pick(["break", "continue"])) + self.tag("endif")

    def s_macro(self, depth, loops):
        return self.tag(f"macro mac(p, q={self.any(0)})") + "{{ p }}{{ q }}" + self.pick(["", "{{ varargs }}", "{{ kwargs }}"]) + self.body(depth, False) + self.tag("endmacro") + "{{ " + self.pick(["mac(1)", "mac(1, 2)", "mac(q=s)", "mac(1, 2, 3)", "mac(1, z=2)", "mac()|upper", "mac"]) + " }}"

    def s_setblock(self, depth, loops):
        return self.tag(f"set joined{self.pick(['', '|upper', '|trim|length'])}") + self.body(depth, loops) + self.tag("endset") + "{{ joined }}"

    def s_filter(self, depth, loops):
        return self.tag(f"filter {self.pick(['upper', 'trim', 'indent(3)', 'replace(' + repr('e') + ', ' + repr('E') + ')'])}") + self.body(depth, loops) + self.tag("endfilter")

    def s_with(self, depth, loops):
        return self.tag(f"with n = {self.any(1)}, b = n") + "{{ n }}{{ b }}" + self.body(depth, loops) + self.tag("endwith")

    def s_call(self, depth, loops):
        return self.tag("macro box(p)") + "<{{ caller(p) }}{{ p }}>" + self.tag("endmacro") + self.tag(f"call(y) box({self.any(0)})") + "{{ y }}" + self.body(depth, False) + self.tag("endcall")

    def s_generation(self, depth, loops):
        return self.tag("generation") + self.body(min(depth, 0), False) + self.tag("endgeneration")

    def program(self):
        return "{% set ns = namespace(i=0) %}" + self.body(3, False) + self.space()


def main():
    count, seed = (int(given) for given in (sys.argv[1:3] + ["160", "1"][len(sys.argv) - 1:])[:2])
    path = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else pathlib.Path(__file__).parent / "programs.jsonl"
    maker = Maker(seed)
    lines, errors = [json.dumps(VARIABLES, ensure_ascii=False)], 0
    while len(lines) <= count:
        source = maker.program()
        text, ranges = rendered(source, VARIABLES)
        # Errors are most of what chance makes; addresses and Python's names are none of the language.
        if text is None and maker.random.random() < 0.75 or text is not None and (" at 0x" in text or "<class" in text or len(text) > 4000):
            continue
        errors += text is None
        lines.append(json.dumps([source, text, ranges], ensure_ascii=False, separators=(",", ":")))
    path.write_text("\n".join(lines) + "\n")
    print(f"{count} programs, {errors} errors, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
