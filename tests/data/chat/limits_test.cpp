// Hostile chat templates end at the limits, with an error that names the line.
#include "tests/data/chat/rendering.h"
#include "tests/support/catch.h"

using namespace ds;
using testing::error;

namespace {
constexpr std::string_view kBytes = "the template takes more than 67108864 bytes of memory";
constexpr std::string_view kSteps = "the template takes more than 1000000 steps";

std::string nested(std::string_view open, std::string_view inside, std::string_view close,
                   int levels) {
  std::string out;
  for (int i = 0; i < levels; ++i) out += open;
  out += inside;
  for (int i = 0; i < levels; ++i) out += close;
  return out;
}
}  // namespace

TEST_CASE("doubling values end at the limit of bytes", "[data][chat]") {
  const std::string head = "{% set n = namespace(x='ab') %}{% for i in range(99) %}";
  for (const std::string_view doubled :
       {"n.x + n.x", "n.x ~ n.x", "n.x * 2", "n.x.replace('a', 'aa')", "'%s%s' % (n.x, n.x)",
        "'{}{}'.format(n.x, n.x)", "[n.x, n.x] | join", "n.x.join([n.x, n.x])"}) {
    CAPTURE(doubled);
    const std::string message =
        error(head + "{% set n.x = " + std::string(doubled) + " %}{% endfor %}");
    CHECK((message == fmt::format("t: line 1: {}", kBytes) ||
           message == fmt::format("t: line 1: {}", kSteps)));
  }
  CHECK(error("{% set n = namespace(x=[1]) %}{% for i in range(99) %}\n{% set n.x = n.x + n.x %}{% "
              "endfor %}") == fmt::format("t: line 2: {}", kBytes));
}

TEST_CASE("the bytes of values and of output add up", "[data][chat]") {
  const std::string once = "{{ 'a' * 20000000 }}";
  CHECK(error(once + once).empty());
  CHECK(error(once + once + once) == fmt::format("t: line 1: {}", kBytes));
  CHECK(error("{% set x = 'a' * 30000000 %}{% set y = 'a' * 30000000 %}\n" + once) ==
        fmt::format("t: line 2: {}", kBytes));
}

TEST_CASE("undefined values take bytes", "[data][chat]") {
  const std::string name(190, 'n');
  const auto kept = [&](const char* what) {
    return error("{% set kept = range(50000)|map(" + std::string(what) + ")|list %}", "{}",
                 {.bytes = 8'000'000});
  };
  CHECK(kept("'int'").empty());  // it is not the list alone
  CHECK(kept(("attribute='" + name + "'").c_str()) ==
        "t: line 1: the template takes more than 8000000 bytes of memory");
}

TEST_CASE("loops and functions that are kept take bytes", "[data][chat]") {
  CHECK(error("{% set n = namespace() %}{% for i in range(90000) %}{% for x in [1] %}"
              "{% set n.l = loop %}{% endfor %}{% endfor %}",
              "{}", {.bytes = 20'000'000}) ==
        "t: line 1: the template takes more than 20000000 bytes of memory");
  CHECK(
      error("{% set x = [" + nested("''.join,", "", "", 1000) + "] %}", "{}", {.bytes = 60'000}) ==
      "t: line 1: the template takes more than 60000 bytes of memory");
}

TEST_CASE("one large step ends at the limit before it takes memory", "[data][chat]") {
  for (const std::string_view large :
       {"{{ 'a' * 100000000000 }}", "{{ [1] * 100000000000 }}",
        "{{ 'x' | center(60000000) | center(67000000) }}",
        "{{ ('a' * 60000) | replace('a', 'b' * 60000) }}", "{{ ('\\n' * 60000) | indent(60000) }}",
        "{{ [1] | batch(60000000, 0) | list }}", "{{ ('a' * 33000000).split('a') }}",
        "{{ ('a' * 33000000).rsplit('a') }}", "{{ ('a ' * 16000000).split() }}",
        "{{ ('\\n' * 33000000).splitlines() }}",
        "{% for i in range(100000) %}{{ 'a' * 1000 }}{% endfor %}"}) {
    CAPTURE(large);
    CHECK(error(large).find("the template takes more than") != std::string::npos);
  }
}

TEST_CASE("loops without end end at the limit of steps", "[data][chat]") {
  CHECK(error("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}") ==
        fmt::format("t: line 1: {}", kSteps));
  for (const std::string_view items : {"range(100000)", "('a' * 60000)"}) {
    CHECK(error("{% for i in range(1000) %}{{ " + std::string(items) + " | last }}{% endfor %}",
                "{}",
                {.steps = 100'000}) == "t: line 1: the template takes more than 100000 steps");
  }
  CHECK(error("{{ range(100001) | list }}").find("more than 100000 numbers") != std::string::npos);
  CHECK(error("{% for i in range(9) %}{% endfor %}", "{}", {.steps = 8}) ==
        "t: line 1: the template takes more than 8 steps");
}

TEST_CASE("a function that is given a long text takes more than one step", "[data][chat]") {
  for (const char* const work : {"s | int", "s | wordcount", "s.isalpha()", "'a'.startswith(s)"}) {
    CAPTURE(work);
    CHECK(error(fmt::format("{{% set s = 'x' * 1000000 %}}{{% for i in range(9000) %}}"
                            "{{% set q = {} %}}{{% endfor %}}",
                            work)) == fmt::format("t: line 1: {}", kSteps));
  }
}

TEST_CASE("every part of a path is a step", "[data][chat]") {
  CHECK(error("{% set n = namespace() %}{% set n.n = n %}{{ [n, n] | map(attribute='n' + '.n' * "
              "600000) | list }}") == fmt::format("t: line 1: {}", kSteps));
  CHECK(error("{% set n = namespace() %}{% set n.n = n %}{{ ('{0' + '.n' * 2000000 + "
              "'}').format(n) }}") == fmt::format("t: line 1: {}", kSteps));
}

TEST_CASE("dicts whose keys are no texts are compared by many steps", "[data][chat]") {
  const std::string made = "{% set a = dict(range(2000) | batch(2)) %}";
  CHECK(testing::text(made + "{{ a == dict(a) }}") == "True");
  CHECK(error(made + "{% for i in range(10) %}{{ a == a }}{% endfor %}", "{}",
              {.steps = 100'000}) == "t: line 1: the template takes more than 100000 steps");
}

TEST_CASE("a value that holds itself many times over is not printed without end", "[data][chat]") {
  const std::string shared =
      "{% set n = namespace(x=[1]) %}{% for i in range(50) %}{% set n.x = [n.x, n.x] %}{% endfor "
      "%}";
  CHECK(error(shared + "{{ n.x }}").find("the template takes more than") != std::string::npos);
  CHECK(error(shared + "{{ n.x | tojson }}").find("the template takes more than") !=
        std::string::npos);
  CHECK(error(shared +
              "{% set y = n.x %}{{ [y, 1] == [y, 2] }}{{ (n.x | list) == [n.x[0], n.x[1]] }}")
            .find("more than") != std::string::npos);
  CHECK(error("{% set n = namespace() %}{% set n.n = n %}{{ n }}").find("holds itself") !=
        std::string::npos);
}

TEST_CASE("depth is limited, in templates and in values", "[data][chat]") {
  CHECK(error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("nested") !=
        std::string::npos);
  CHECK(error("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}").find("nested") !=
        std::string::npos);
  CHECK(error("{{ " + nested("(", "1", ")", 30) + " }}").empty());
  CHECK(error("{{ " + nested("(", "1", ")", 5000) + " }}") ==
        "t: line 1: nested deeper than 64 levels");
  CHECK(error(nested("{% if true %}", "x", "{% endif %}", 5000)) ==
        "t: line 1: nested deeper than 64 levels");
  CHECK(error("{{ " + nested("not ", "x", "", 5000) + " }}") ==
        "t: line 1: nested deeper than 64 levels");
  CHECK(error("{{ " + nested("-", "1", "", 5000) + " }}") ==
        "t: line 1: nested deeper than 64 levels");
  CHECK(error("{{ x" + nested("|upper", "", "", 90000) + " }}").find("nested too deeply") !=
        std::string::npos);
  CHECK(testing::text("{% set x" + nested("|e", "", "", 500) + " %}<{% endset %}{{ x }}") ==
        "&lt;");
  CHECK(error("{% set x" + nested("|e", "", "", 500'000) + " %}<{% endset %}", "{}",
              {.steps = 100'000}) == "t: line 1: the template takes more than 100000 steps");
  CHECK(error("{% filter e" + nested("|e", "", "", 500'000) + " %}<{% endfilter %}", "{}",
              {.steps = 100'000}) == "t: line 1: the template takes more than 100000 steps");
  CHECK(error("{% set n = namespace(x=1) %}{% for i in range(99) %}{% set n.x = [n.x] %}{% endfor "
              "%}") == "t: line 1: nested deeper than 64 levels");
  CHECK(error("{{ x }}", "{\"x\": " + nested("[", "", "]", 5000) + "}")
            .find("nested deeper than 256 levels") != std::string::npos);
}

TEST_CASE("long chains of operators are no depth", "[data][chat]") {
  CHECK(testing::text("{{ 0" + nested("+1", "", "", 3000) + " }}") == "3000");
  CHECK(testing::text("{{ 1" + nested(" and 1", "", "", 3000) + " }}") == "1");
  CHECK(testing::text("{{ ''" + nested("~'x'", "", "", 3000) + " }}").size() == 3000);
}

TEST_CASE("values in a circle are let go of", "[data][chat]") {
  CHECK(
      testing::text(
          "{% set n = namespace() %}{% set n.n = n %}{% macro m() %}{% endmacro %}{% set n.m = m %}"
          "{% for x in [1] %}{% if loop.changed(loop) %}{% set n.l = loop %}{% endif %}{% endfor "
          "%}x") == "x");
  CHECK(testing::text("{% set n = namespace() %}{% for i in range(20000) %}{% set p = n.m %}{% "
                      "macro m() %}{% endmacro %}"
                      "{% set n.m = m %}{% set n.s = namespace(s=n.s) %}{% endfor %}x") == "x");
}

TEST_CASE("loops in a circle and in a chain are let go of", "[data][chat]") {
  CHECK(testing::text("{% set n = namespace() %}{% for i in [1] %}{% for x in [1] %}"
                      "{% set n.l = loop %}{% endfor %}{% set keep = n.l %}{% endfor %}x") == "x");
  const RenderLimits large{.steps = 10'000'000, .bytes = size_t{1} << 30};
  const std::string head = "{% set n = namespace(l=none) %}{% for i in range(60000) %}";
  for (const std::string_view body :
       {"{% set p = n.l %}{% for x in [1] %}{% set n.l = loop %}{% endfor %}",
        "{% with p = n.l %}{% if true %}{% filter e %}{% for x in [1] %}{% set n.l = loop %}"
        "{% endfor %}{% endfilter %}{% endif %}{% endwith %}",
        "{% with p = n.l %}{% for x in [1] %}{% macro m() %}{% endmacro %}{% set n.l = m %}"
        "{% endfor %}{% endwith %}"}) {
    CAPTURE(body);
    for (const std::string_view end : {"", "{% set n.l = none %}"}) {
      CHECK(testing::render(head + std::string(body) + "{% endfor %}" + std::string(end) + "x",
                            "{}", large)
                .text == "x");
    }
  }
}
