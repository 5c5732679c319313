// Configurations that are wrong, and what is said about each: tests/golden/config/malformed.txt,
// plus inputs that no text file holds (bytes that are not UTF-8, deep nesting, megabytes).
#include <fmt/format.h>

#include "config/batch.h"
#include "config/load.h"
#include "config/reader/json_reader.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {

namespace {

std::string batch_errors(const Config& config, int64_t ranks) {
  try {
    resolve_batch(config.train_batch_size, config.train_micro_batch_size_per_gpu,
                  config.gradient_accumulation_steps,
                  data_parallel_size(ranks, config.sequence_parallel_size.value_or(1)));
    return "";
  } catch (const Error& error) {
    return std::string(error.what()) + "\n";
  }
}

// Every error, one a line.
std::string errors_of(std::string text) {
  int64_t ranks = 0;
  if (text.starts_with("ranks=")) {
    const size_t blank = text.find(' ');
    ranks = std::stoll(text.substr(6, blank - 6));
    text = text.substr(blank + 1);
  }
  while (text.ends_with('\n')) text.pop_back();
  std::string out;
  try {
    const ReadConfig read = read_config_text(text, "f");
    for (const Problem& problem : read.problems.all()) {
      if (problem.severity == Severity::kError) out += problem.text() + "\n";
    }
    if (ranks > 0) out += batch_errors(read.config, ranks);
  } catch (const Error& error) {
    out = std::string(error.what()) + "\n";
  }
  return out.empty() ? "accepted\n" : out;
}

}  // namespace

TEST_CASE("malformed configurations get the right message", "[config]") {
  testing::run_golden("config/malformed.txt", errors_of);
}

TEST_CASE("invalid UTF-8 is refused at its first byte", "[config]") {
  for (const std::string bytes :
       {"\xFF", "\xC0\x80", "\xC3(", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\x80", "\xE2\x82", "\xFE", "\xF1\x80"}) {
    const std::string in_value = errors_of("{\"data\": {\"tokenizer\": \"" + bytes + "\"}}");
    CHECK_THAT(in_value, Catch::StartsWith("f:1:25: byte 0x"));
    CHECK_THAT(errors_of("{\"" + bytes + "\": 1}"), Catch::StartsWith("f:1:3: byte 0x"));
    CHECK_THAT(errors_of("# " + bytes), Catch::StartsWith("f:1:3: byte 0x"));
  }
}

TEST_CASE("a zero byte and control characters are refused", "[config]") {
  for (char c = 0; c < 0x20; ++c) {
    if (c == '\t' || c == '\n' || c == '\r') continue;
    const std::string text = std::string("{\"data\": {\"tokenizer\": \"") + c + "\"}}";
    CHECK_THAT(errors_of(text), Catch::StartsWith("f:1:25: control character"));
    CHECK(errors_of(std::string("{\"train_batch_size\": ") + c + "}") != "accepted\n");
  }
}

TEST_CASE("deep nesting is refused before it costs anything", "[config]") {
  for (const size_t depth : {65UL, 1000UL, 100'000UL}) {
    std::string lists, objects, alternating;
    for (size_t i = 0; i < depth; ++i) {
      lists += '[';
      objects += "{\"a\":";
      alternating += i % 2 == 0 ? "{a:" : "[";
    }
    for (const std::string& text : {"{\"x\":" + lists, objects, alternating, lists}) {
      const std::string said = errors_of(text.substr(0, kMaxTextBytes));
      CHECK((said.find("nested deeper than 64 levels") != std::string::npos ||
             said.find("expected an object") != std::string::npos));
    }
  }
}

TEST_CASE("long inputs are cheap: digits, strings, keys, comments, megabytes", "[config]") {
  const std::string million(900'000, '7');
  CHECK_THAT(errors_of("{\"train_batch_size\": " + million + "}"),
             Catch::Contains("beyond the range"));
  CHECK(errors_of("{\"" + million + "\": 1}") == "accepted\n");
  CHECK_THAT(errors_of("{\"train\": {\"" + million + "\": 1}}"), Catch::Contains("unknown key"));
  CHECK_THAT(errors_of("{\"gradient_clipping\": \"" + million + "\"}"),
             Catch::Contains("..., expected number"));
  CHECK_THAT(errors_of("/*" + million), Catch::Contains("no closing */"));
  CHECK_THAT(errors_of("{\"a\": " + million), Catch::Contains("f:1:"));
  CHECK_THAT(errors_of(std::string(kMaxTextBytes + 1, ' ')), Catch::Contains("at most"));
  std::string many = "{";
  for (int i = 0; i < kMaxValues; ++i) many += fmt::format("\"key{}\": 1,", i);
  CHECK(errors_of(many + "}") == "accepted\n");
  std::string slip = "{";
  for (int i = 1; i < kMaxValues; ++i) slip += fmt::format("\"key{}\": 1,", i);
  CHECK_THAT(errors_of(slip + "gradient_clip: 1}"), Catch::Contains("gradient_clip: unknown key"));
  CHECK_THAT(errors_of(many + "one_more: 1}"), Catch::Contains("more than 20000 values"));
}

TEST_CASE("no prefix of a configuration crashes the reader", "[config]") {
  const std::string text =
      "{ // c\n \"a\\u0041\": [1, -2.5e3, true, null, {x: 'y', z: quoteless # no\n}], /* d */\n"
      "m: '''\n  block\n  ''' \"o\": {\"p\": \"q\"} }";
  for (size_t length = 0; length <= text.size(); ++length) {
    CHECK_FALSE(errors_of(text.substr(0, length)).empty());
  }
}

}  // namespace ds
