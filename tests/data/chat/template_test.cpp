// Chat templates: white space, printing, the sandbox, errors with their lines, generation blocks.
#include "data/chat/template.h"

#include "tests/data/chat/rendering.h"
#include "tests/support/catch.h"

using namespace ds;
using testing::error;
using testing::text;

TEST_CASE("a line that holds a block alone leaves nothing", "[data][chat]") {
  CHECK(text("a\n  {% if true %}\nb\n  {% endif %}\nc") == "a\nb\nc");
  CHECK(text("a {% if true %}b{% endif %}\nc") == "a bc");
  CHECK(text("  {{ 1 }}\n") == "  1");
  CHECK(text("a\n  {# x #}\nb") == "a\nb");
  CHECK(text("  {% if true %}\n  {% endif %}\nc") == "c");
}

TEST_CASE("signs in tags take white space away or keep it", "[data][chat]") {
  CHECK(text("a \n {%- if true -%} \n b {%- endif %}") == "ab");
  CHECK(text("a\n  {%+ if true +%}\nb{% endif %}") == "a\n  \nb");
  CHECK(text("a {{- 1 -}} b") == "a1b");
  CHECK(text("{% raw -%} {{ x }} {%- endraw %}") == "{{ x }}");
  CHECK(text("a {#- x -#} b") == "ab");
}

TEST_CASE("one line end at the end of a template is dropped", "[data][chat]") {
  CHECK(text("a\n") == "a");
  CHECK(text("a\r\n\r\n") == "a\n");
}

TEST_CASE("values are printed as Python prints them", "[data][chat]") {
  CHECK(text("{{ [1, 1.0, none, true, 'it\\'s', \"q\\\"\", (1,), {'a': []}] }}") ==
        "[1, 1.0, None, True, \"it's\", 'q\"', (1,), {'a': []}]");
  CHECK(text("{{ 1e16 }} {{ 1e15 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ -0.0 }} {{ 1e400 }}") ==
        "1e+16 1000000000000000.0 0.30000000000000004 1e-05 -0.0 inf");
  CHECK(text("{{ ['\\n\\x7f\\u200b\\U0001F600'] }}") == "['\\n\\x7f\\u200b\U0001F600']");
  CHECK(text("{{ x }}", R"({"x": {"b": 1, "a": 2.0, "c": "é"}})") ==
        "{'b': 1, 'a': 2.0, 'c': 'é'}");
}

TEST_CASE("JSON is written as Python writes it, keys in their order", "[data][chat]") {
  const char* x = R"({"x": {"b": [1, 2.5, null, true], "a": "é\n\u0001<"}})";
  CHECK(text("{{ x | tojson }}", x) == "{\"b\": [1, 2.5, null, true], \"a\": \"é\\n\\u0001<\"}");
  CHECK(text("{{ x | tojson(sort_keys=true, ensure_ascii=true, separators=(',', ':')) }}", x) ==
        "{\"a\":\"\\u00e9\\n\\u0001<\",\"b\":[1,2.5,null,true]}");
  CHECK(text("{{ {'a': [1], 'b': {}} | tojson(indent=2) }}") ==
        "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
}

TEST_CASE("what is not defined prints nothing, and has no attribute", "[data][chat]") {
  CHECK(text("[{{ x }}{{ m.x }}{{ m['y'] }}]{{ x is defined }}{{ x | default('d') }}",
             R"({"m": {}})") == "[]Falsed");
  CHECK(error("\n\n{{ m.x.y }}", R"({"m": {}})") ==
        "t: line 3: 'dict object' has no attribute 'x'");
  CHECK(error("{{ x + 1 }}") == "t: line 1: 'x' is undefined");
}

TEST_CASE("a loop's names end with a round, a namespace's stay", "[data][chat]") {
  CHECK(text("{% set x = 0 %}{% set n = namespace(x=0) %}{% for i in [1, 2] %}{% set x = i %}"
             "{% set n.x = i %}{% endfor %}{{ x }}{{ n.x }}") == "02");
}

TEST_CASE("filters of blocks come one behind the other", "[data][chat]") {
  CHECK(text("{% filter upper | replace('A', 'b') | indent(1, true) %}a{% endfilter %}") == " b");
  CHECK(text("{% set x | upper | replace('A', 'b') %}a{% endset %}{{ x }}") == "b");
}

TEST_CASE("a loop of unknown length counts what is left of it", "[data][chat]") {
  CHECK(text("{% for x in [1, 2, 3] if x %}{{ loop.last }}{{ loop.length }} {% endfor %}") ==
        "False3 False3 True3 ");
  CHECK(text("{% for x in [1, 2, 3] | map('string') %}{{ loop.length }}{{ loop.nextitem }} "
             "{% endfor %}") == "32 33 3 ");
}

TEST_CASE("a loop's condition may not go through the loop itself", "[data][chat]") {
  for (const std::string_view asked : {"length", "last", "nextitem", "revindex"}) {
    CAPTURE(asked);
    CHECK(error("{% set n = namespace(l=none) %}{% for x in [1, 2, 3] if n.l is none or not n.l." +
                std::string(asked) + " %}{% set n.l = loop %}{% endfor %}") ==
          "t: line 1: the condition of a loop goes through the loop itself");
  }
}

TEST_CASE("a name that is set later hides a variable from loops and macros before",
          "[data][chat]") {
  CHECK(text("{% for i in [1] %}[{{ x }}]{% endfor %}{% set x = 1 %}{{ x }}", R"({"x": 5})") ==
        "[]1");
  CHECK(text("{% for i in [1] %}[{{ x }}]{% endfor %}{% if true %}{% set x = 1 %}{% endif %}",
             R"({"x": 5})") == "[5]");
  CHECK(text("{{ x }}{% set x = 1 %}{{ x }}", R"({"x": 5})") == "51");
}

TEST_CASE("an error of a template names its line", "[data][chat]") {
  CHECK(error("a\n{{ raise_exception('roles must alternate') }}") ==
        "t: line 2: roles must alternate");
  CHECK(error("{% if true %}\n{{ 1 / 0 }}{% endif %}") == "t: line 2: division by zero");
  CHECK(error("x\n{{ 'a' + 1 }}") ==
        "t: line 2: '+' is not possible between 'str object' and 'int object'");
  CHECK(error("\n{% for x in 5 %}{% endfor %}") ==
        "t: line 2: iteration: not possible with a 'int object'");
}

TEST_CASE("what is no template is refused with its line when it is read", "[data][chat]") {
  const auto refusal = [](std::string_view source) {
    try {
      ChatTemplate::parse(source, "t");
      return std::string();
    } catch (const DataError& failed) {
      return std::string(failed.what());
    }
  };
  CHECK(refusal("a\n{{ x") == "t: line 2: '{{' without its end '}}'");
  CHECK(refusal("{% if x %}\n") ==
        "t: line 1: expected 'elif' or 'else' or 'endif', found the end of the template");
  CHECK(refusal("{% endif %}") == "t: line 1: unknown statement 'endif'");
  CHECK(refusal("{{ 1 + }}") == "t: line 1: expected an expression, found '}}'");
  CHECK(refusal("{{ 'a }}") == "t: line 1: a text without its closing quote");
  CHECK(refusal("\n{{ (1] }}") == "t: line 2: unexpected ']', expected ')'");
  CHECK(refusal("{% break %}") == "t: line 1: 'break' outside of a loop");
  CHECK(refusal("{# x") == "t: line 1: a comment without its end '#}'");
  CHECK(refusal("{{ '\\ud800' }}") == "t: line 1: an escape names no character of Unicode");
  CHECK(refusal("{{ 99999999999999999999 }}").find("more than 64 bits") != std::string::npos);
  CHECK(refusal("\xff").find("invalid UTF-8 at byte 0") != std::string::npos);
}

TEST_CASE("filters, tests and statements that are unknown are refused by name", "[data][chat]") {
  const auto refusal = [](std::string_view source) {
    try {
      ChatTemplate::parse(source, "t");
      return std::string();
    } catch (const Unsupported& failed) {
      return std::string(failed.what());
    }
  };
  CHECK(refusal("\n{{ x | random }}") == "t: line 2: the filter 'random' is not supported");
  CHECK(refusal("{{ x is purple }}") == "t: line 1: the test 'purple' is not supported");
  CHECK(refusal("{% include 'a' %}") == "t: line 1: the statement 'include' is not supported");
  CHECK(refusal("{% if false %}{{ x | pprint }}{% endif %}") ==
        "t: line 1: the filter 'pprint' is not supported");
}

TEST_CASE("the sandbox changes nothing and shows nothing of its insides", "[data][chat]") {
  const char* x = R"({"l": [1], "d": {"_k": 2}})";
  CHECK(error("{{ l.append(2) }}", x).find("unsafe") != std::string::npos);
  CHECK(error("{{ d.update(a=1) }}", x).find("unsafe") != std::string::npos);
  CHECK(error("{{ ''.__class__.__mro__ }}").find("unsafe") != std::string::npos);
  CHECK(error("{{ ''['__class__']() }}").find("has no attribute") != std::string::npos);
  CHECK(text("{{ ''.__class__ }}{{ ''.__class__ is defined }}{{ d._k }}", x) == "False2");
  CHECK(error("{% set n = namespace(_a=1) %}").find("begins with _") != std::string::npos);
  CHECK(error("{% set n = namespace() %}{% set n._a = 1 %}").find("begins with _") !=
        std::string::npos);
  CHECK(error("{{ '{0.__class__.x}'.format(1) }}").find("unsafe") != std::string::npos);
}

TEST_CASE("letters, tabs and formats by names are Python's", "[data][chat]") {
  CHECK(text("{{ 'Straße İ Ω Ǆ ﬁ'.casefold() }}") == "strasse i\u0307 ω ǆ fi");
  CHECK(text(R"({{ 'a\tbc\td\n\te'.expandtabs() }})") == "a       bc      d\n        e");
  CHECK(text(R"({{ 'é\tx\r\ty'.expandtabs(4) ~ 'a\tb'.expandtabs(tabsize=0) }})") ==
        "é   x\r    yab");
  CHECK(error("{{ '\\t'.expandtabs(10 ** 12) }}").find("more than") != std::string::npos);
  CHECK(text("{{ 'ab é'.isprintable() }}{{ 'a\\n'.isprintable() }}{{ ''.isprintable() }}") ==
        "TrueFalseTrue");
  CHECK(text("{{ '{a:>3}{b[0]}'.format_map({'a': 1, 'b': [2]}) }}") == "  12");
  CHECK(text("{{ 5.real }}{{ true.numerator }}{{ 2.5.imag }}{{ 3.denominator }}{{ 2.5.numerator }}"
             "{{ range(2, 9, 3).stop }}{{ range(5).step }}") == "510.0191");
  CHECK(error("{{ '{}'.format_map({'a': 1}) }}").find("wants more arguments") != std::string::npos);
}

TEST_CASE("time comes from the caller", "[data][chat]") {
  CHECK(text("{{ strftime_now('%d %b %Y, %A %H:%M:%S %% %-m %f|%z|') }}") ==
        "26 Jul 2024, Friday 09:05:07 % 7 000000||");
  const auto chat = ChatTemplate::parse("{{ strftime_now('%Y') }}", "t");
  CHECK_THROWS_WITH(chat.render(testing::json_of("{}")),
                    Catch::Contains("the caller gave no clock"));
}

TEST_CASE("generation blocks say which bytes they wrote", "[data][chat]") {
  const RenderedChat chat = testing::render(
      "é{% for i in [1, 2] %}<{% generation %}ü{{ i }}{% endgeneration %}>{% endfor %}");
  CHECK(chat.text == "é<ü1><ü2>");
  REQUIRE(chat.generation.size() == 2);
  CHECK(chat.text.substr(chat.generation[0].begin, 3) == "ü1");
  CHECK(chat.generation[1].begin == 8);
  CHECK(chat.generation[1].end == 11);
  CHECK(chat.unplaced_generation_line == 0);
  CHECK(ChatTemplate::parse("{% generation %}{% endgeneration %}", "t").has_generation());
  CHECK_FALSE(ChatTemplate::parse("x", "t").has_generation());
}

TEST_CASE("a generation block that writes into a value has no place, and that is said",
          "[data][chat]") {
  const RenderedChat chat =
      testing::render("a\n{% set x %}{% generation %}b{% endgeneration %}{% endset %}{{ x }}");
  CHECK(chat.text == "a\nb");
  CHECK(chat.generation.empty());
  CHECK(chat.unplaced_generation_line == 2);
}

TEST_CASE("integers of more than 64 bits are refused, not rounded", "[data][chat]") {
  CHECK(error("{{ 9223372036854775807 + 1 }}").find("64 bits") != std::string::npos);
  CHECK(error("{{ 2 ** 64 }}").find("64 bits") != std::string::npos);
  CHECK(error("{{ x }}", R"({"x": 18446744073709551615})").find("in the variables") !=
        std::string::npos);
  CHECK(text("{{ -9223372036854775807 - 1 }}") == "-9223372036854775808");
}

TEST_CASE("integers at the end of their range are counted with exactly", "[data][chat]") {
  const std::string lowest = "-9223372036854775807 - 1";
  CHECK(text("{{ 'abc' | truncate(9223372036854775807) }}") == "abc");
  CHECK(text("{{ 'abcdefgh' | truncate(5, true, '...', 9223372036854775807) }}") == "abcdefgh");
  CHECK(error("{{ 9223372036854775807 | round(-1) }}").find("64 bits") != std::string::npos);
  CHECK(error("{{ 9223372036854775807 | round(-19) }}").find("64 bits") != std::string::npos);
  CHECK(text("{{ -9223372036854775807 | round(-18) }}") == "-9000000000000000000");
  CHECK(text("{{ (" + lowest + ") | round(-2) }}") == "-9223372036854775800");
  CHECK(text("{{ 1 | round(" + lowest + ") }}{{ 4999999999999999999 | round(-19) }}") == "00");
  CHECK(text("{{ [15, 25, -15, -25, 16, -16] | map('round', -1) | join(' ') }}") ==
        "20 20 -20 -20 20 -20");
  CHECK(error("{{ 1 | round(-400, 'ceil') }}") == "t: line 1: round: the precision is too small");
  const char* far = "t: line 1: the step of a slice of a range is too large";
  CHECK(error("{{ range(0, 10, 3)[::9223372036854775807] }}") == far);
  CHECK(error("{% set n = namespace(r=range(10)) %}{% for i in range(64) %}"
              "{% set n.r = n.r[::1000] %}{% endfor %}") == far);
  CHECK(text("{{ range(0, 10, 3)[::-2] | list }}") == "[9, 3]");
  for (const std::string cut :
       {"'a b'.split(' ', ", "'a b'.split(none, ", "'a b'.rsplit(' ', ", "'a b'.rsplit(none, "}) {
    CAPTURE(cut);
    CHECK(text(fmt::format("{{{{ {}{}) }}}}", cut, lowest)) == "['a', 'b']");
  }
  CHECK(text(fmt::format(
            "{{{{ 'aXa'.replace('a', 'b', {0}) }}}}{{{{ 'X'.replace('', 'b', {0}) }}}}", lowest)) ==
        "bXbbXb");
}

TEST_CASE("letters and strings go by characters", "[data][chat]") {
  const char* u = R"({"u": "Straße ΟΔΟΣ 😀"})";
  CHECK(text("{{ u | length }}{{ u[-1] }}{{ u[::-1] }}{{ u.find('Δ') }}", u) ==
        "13😀😀 ΣΟΔΟ eßartS8");
  CHECK(text("{{ u.upper() }}|{{ u.lower() }}|{{ u.title() }}", u) ==
        "STRASSE ΟΔΟΣ 😀|straße οδος 😀|Straße Οδος 😀");
}
