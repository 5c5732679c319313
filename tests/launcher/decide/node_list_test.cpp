#include "launcher/decide/hosts/node_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>

#include "config/reader/json_reader.h"
#include "core/status/error.h"
#include "launcher/decide/core_plan.h"
#include "launcher/decide/text/base64.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

struct Item {  // one of a list: its text, and the names that it means
  std::string text;
  std::vector<std::string> names;
};

// The names of each part in turn, the first varying slowest; built from random ranges, so that what
// it means is known without reading it.
Item random_item(std::mt19937& generator) {
  const auto random = [&] { return static_cast<unsigned>(generator()); };
  Item out{"", {""}};
  const auto multiply = [&](const std::vector<std::string>& by) {
    std::vector<std::string> names;
    for (const std::string& name : out.names) {
      for (const std::string& piece : by) names.push_back(name + piece);
    }
    out.names = std::move(names);
  };
  const std::string letters(1 + random() % 3, static_cast<char>('a' + random() % 26));
  out.text = letters;
  multiply({letters});
  for (unsigned bracket = random() % 3; bracket > 0; --bracket) {
    std::vector<std::string> texts;
    std::vector<std::string> numbers;
    for (unsigned part = 1 + random() % 3; part > 0; --part) {
      const unsigned low = random() % 120;
      const unsigned high = low + random() % 12;
      const unsigned width = random() % 2 == 0 ? 1 : 4;  // 4: more digits than any has
      texts.push_back(low == high && random() % 2 == 0
                          ? fmt::format("{:0{}}", low, width)
                          : fmt::format("{:0{}}-{:0{}}", low, width, high, width));
      for (unsigned n = low; n <= high; ++n) numbers.push_back(fmt::format("{:0{}}", n, width));
    }
    out.text += fmt::format("[{}]", fmt::join(texts, ","));
    multiply(numbers);
  }
  return out;
}

}  // namespace

TEST_CASE("a list of nodes means every combination of its ranges, in order", "[launcher]") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> texts;
    std::vector<std::string> names;
    for (auto items = 1 + random() % 4; items > 0; --items) {
      const Item item = random_item(random);
      texts.push_back(item.text);
      names.insert(names.end(), item.names.begin(), item.names.end());
    }
    const std::string text = fmt::format("{}", fmt::join(texts, ","));
    INFO(text);
    REQUIRE(expand_node_list(text) == names);
  }
}

TEST_CASE("an error in a list of nodes says at which column it is", "[launcher]") {
  struct Case {
    std::string text;
    std::string words;
  };
  const std::vector<Case> cases{
      {"", "node list:1: the host name is empty"},
      {"a,,b", "node list:3: the host name is empty"},
      {"a,b[1-2", "node list:4: '[' is not closed"},
      {"a]", "node list:2: ']' without '['"},
      {"a[[1]]", "node list:2: '[' is not closed"},
      {"n[]", "node list:3: expected a number"},
      {"n[1-]", "node list:5: expected a number"},
      {"n[5-3]", "node list:3: range 5-3 descends"},
      {"n[1;2]", "node list:4: expected a digit, '-' or ',' in a range"},
      {"n[1234567890]", "node list:3: the number is too long"},
      {"ok,-rf", "node list:4: the host name must not begin with '-'"},
      {"n1 n2", "node list:1: the host name must not contain ' '"},
      {"n[1-300][1-300]", "node list:9: more nodes than can be"},
  };
  for (const Case& bad : cases) {
    INFO(bad.text);
    CHECK_THROWS_AS(expand_node_list(bad.text), UsageError);
    CHECK_THROWS_WITH(expand_node_list(bad.text), Catch::StartsWith(bad.words));
  }
}

TEST_CASE("as many nodes as may be are taken, and not one more", "[launcher]") {
  CHECK(expand_node_list("n[1-65536]").size() == kMaxNodes);
  CHECK_THROWS_AS(expand_node_list("n[1-65537]"), UsageError);
  CHECK_THROWS_WITH(expand_node_list("n[1-65536],m"), Catch::Contains("more than 65536 nodes"));
}

TEST_CASE("a host's name cannot be taken for an option, a path or more words", "[launcher]") {
  for (const char* good : {"a", "7", "_x", "node-1.example.org", "user@10.0.0.1", "U_1@h"})
    CHECK_NOTHROW(require_host_name(good));
  CHECK_NOTHROW(require_host_name(std::string(253, 'a')));
  const std::vector<std::pair<std::string, std::string>> bad{
      {"", "the host name is empty"},
      {"user@", "the host name is empty"},
      {"@host", "the user name is empty"},
      {"-oProxyCommand=x", "the host name must not begin with '-'"},
      {".hidden", "the host name must not begin with '.'"},
      {"-l@host", "the user name must not begin with '-'"},
      {"a b", "the host name must not contain ' '"},
      {"a/b", "the host name must not contain '/'"},
      {"a;b", "the host name must not contain ';'"},
      {"a@b@c", "the host name must not contain '@'"},
      {std::string("a\n"), "the host name must not contain byte 0x0a"},
      {"b\xc3\xbc", "the host name must not contain byte 0xc3"},
      {std::string(254, 'a'), "the host name has 254 characters"},
  };
  for (const auto& [name, words] : bad) CHECK_THROWS_WITH(require_host_name(name), words);
}

TEST_CASE("whole numbers are read whole or not at all", "[launcher]") {
  const std::vector<std::pair<std::string, int64_t>> good{
      {"0", 0},   {" 12\t", 12}, {"+5", 5},
      {"-5", -5}, {"007", 7},    {"9223372036854775807", INT64_MAX}};
  for (const auto& [text, value] : good) CHECK(parse_whole_number(text, "it") == value);
  for (const char* text : {"", " ", "+", "-", "+-5", "++5", "1.0", "1e3", "0x10", "12a", "1 2",
                           "9223372036854775808"}) {
    CHECK_THROWS_AS(parse_whole_number(text, "it"), UsageError);
  }
  CHECK_THROWS_WITH(parse_whole_number("x", "the port"),
                    "the port is 'x', expected a whole number");
}

TEST_CASE("a list of cores that was written is read as the same cores", "[launcher]") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> cores;
    for (int core = 0; core < 64; ++core) {
      if (random() % 3 == 0) cores.push_back(core);
    }
    if (cores.empty()) continue;
    INFO(core_list_text(cores));
    REQUIRE(parse_core_list(core_list_text(cores)) == cores);
  }
}

TEST_CASE("bytes survive base64 of any length, in letters that a URL may have", "[launcher]") {
  CHECK(encode_base64("").empty());
  CHECK(encode_base64("\xfb\xff") == "-_8=");
  std::mt19937 random(5);
  for (size_t length = 0; length < 100; ++length) {
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % 256);
    const std::string text = encode_base64(bytes);
    CHECK(text.size() == (length + 2) / 3 * 4);
    CHECK(text.find_first_of("+/ \n") == std::string::npos);
    REQUIRE(decode_base64(text) == bytes);
  }
}

}  // namespace ds
