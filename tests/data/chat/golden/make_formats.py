"""Makes formats.jsonl beside it: random formats, by braces and by %, of values of all kinds, and what the reference makes
of them. The lines are as those of programs.jsonl, without ranges.
usage: python make_formats.py [count [seed [file]]]
"""
import json
import pathlib
import random
import sys

from reference import rendered

VARIABLES = {"n": 7, "m": -3, "big": 1234567, "x": 2.5, "y": -0.0, "z": 1e20, "w": 123456.789, "t": True, "none_": None, "s": "Hello", "u": "Gr\u00fc\u00dfe",
             "l": [1, "\u00e9"], "d": {"a": 1, "b": {"c": [5, 6]}}, "small": 0.000012345, "h": 100.0, "e": ""}
VALUES = list(VARIABLES) + ["3", "1.5", "'ab'", "none", "q", "[]", "(1,2)", "1e-7", "n/3", "w*-1", "65", "8364", "l[1]", "d.b", "'<i>'|safe", "0", "-1",
                            "9007199254740993", "0.5", "1.005", "2.675", "99999.5", "0.0001", "1e15", "1e16", "123456789012345678"]
FIELDS = ["{d.a}", "{d[a]}", "{d.b[c][0]:03}", "{0.a}{}", "{}{0}", "{0}{}", "{.a}", "{[0]}", "{x", "x}", "{{{}}}", "{{}}", "{!r}", "{!r:}", "{!}", "{a:}", "{:}", "{a b}",
          "{0[}", "{0[]}", "{0.}", "{0]}", "{:{:{}}}", "{:{{}}", "{:}}", "{d.b.c[1]}", "{d[a]x}", "{ }", "{-1}", "{00}"]

WIDTHS = ["5", "'<8'", "'.2f'", "8", "s"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def maybe(self, chance, options):
        return self.random.choice(options) if self.random.random() < chance else ""

    def specification(self):
        align = self.maybe(0.2, ["*", "0", " ", "\u00e9", "<"]) + self.random.choice("<>=^") if self.random.random() < 0.4 else ""
        return align + "".join([self.maybe(0.25, "+- "), self.maybe(0.08, "z"), self.maybe(0.15, "#"), self.maybe(0.25, "0"), self.maybe(0.5, ["1", "3", "5", "8", "12", "20"]),
                                self.maybe(0.2, [",", "_", ",", "_", ",_", "_,"]), "." + self.random.choice(["0", "1", "2", "3", "6", "10", "17", "30", ""]) if self.random.random() < 0.4 else "",
                                self.maybe(0.7, "bcdoxXneEfFgG%sdfffdsgrq")])

    def percent(self):
        width, precision, kind = self.maybe(0.7, ["5", "10", "*"]), self.maybe(0.7, [".2", ".0", ".10", ".", ".*"]), self.random.choice("diouxXeEfFgGcrsa%dsfs")
        form = "%" + "".join(self.random.sample("-+ #0", self.random.choice([0, 0, 1, 2]))) + width + precision + kind + "|"
        value = self.random.choice(VALUES)
        given = ([self.random.choice(["6", "-6"])] if width == "*" else []) + ([self.random.choice(["3", "0", "-1"])] if precision == ".*" else []) + [value]
        return self.random.choice([f"'{form}' % ({', '.join(given)},)", f"'{form}'|format({', '.join(given)})", f"'{form.replace('*', '3').replace('%', '%(a)', 1)}' % {{'a': {value}}}"])

    def expression(self):
        one, two, spec, chance = self.random.choice(VALUES), self.random.choice(VALUES), self.specification, self.random.random()
        if chance < 0.45:
            return f'"{{:{spec()}}}".format({one})'
        if chance < 0.55:
            return f'"{{0:{spec()}}}|{{1:{spec()}}}|{{0}}".format({one}, {two})'
        if chance < 0.62:
            return '"{:{}}".format(%s, %s)' % (one, self.random.choice(WIDTHS))
        if chance < 0.7:
            return '"{a!%s:%s}".format(a=%s)' % (self.random.choice("rsax"), self.random.choice(["", ">10", "^12", ".3", "5d"]), one)
        if chance < 0.76:
            return f'"{self.random.choice(FIELDS)}".format({one}, {two}, d=d, a=1, x=2)'
        if chance < 0.8:
            return '("%s"|safe).format(%s)' % (self.random.choice(["{}", "<{:>5}>", "{!r}", "{:.2f}"]), self.random.choice(["'<b>'", "'<i>'|safe", one]))
        return self.percent()


def main():
    count, seed = (int(given) for given in (sys.argv[1:3] + ["400", "1"][len(sys.argv[1:3]):]))
    path = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else pathlib.Path(__file__).parent / "formats.jsonl"
    maker = Maker(seed)
    lines = [json.dumps(VARIABLES, ensure_ascii=False)]
    while len(lines) <= count:
        source = "{{ " + maker.expression() + " }}"
        text, ranges = rendered(source, VARIABLES)
        # Integers of more than 64 bits, and addresses, are none of the language.
        if text is None and maker.random.random() < 0.6 or text is not None and (" at 0x" in text or "<class" in text or "00000000000000000000" in text):
            continue
        lines.append(json.dumps([source, text, ranges], ensure_ascii=False, separators=(",", ":")))
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
