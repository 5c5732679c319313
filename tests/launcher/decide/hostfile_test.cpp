// Hostfiles, node lists and filters: golden files of good and bad inputs, and the limits.
#include "launcher/decide/hosts/hostfile.h"

#include "core/status/error.h"
#include "launcher/decide/hosts/host_filter.h"
#include "launcher/decide/hosts/node_list.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

// Escapes let a golden command hold what no editor shows: \n \r \0 \xHH.
std::string unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'n') out += '\n';
    if (c == 'r') out += '\r';
    if (c == 't') out += '\t';
    if (c == '0') out += '\0';
    if (c == 'x') {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    }
  }
  return out;
}

// First word: hosts (our dialect), deepspeed (the reference's), nodes; the rest of the command is
// the text.
std::string answer(std::string command) {
  while (command.ends_with('\n')) command.pop_back();
  const size_t space = std::min(command.find(' '), command.size());
  const std::string verb = command.substr(0, space);
  const std::string text = unescaped(space < command.size() ? command.substr(space + 1) : "");
  std::string out;
  try {
    if (verb == "nodes") {
      for (const std::string& name : expand_node_list(text)) out += name + "\n";
    } else {
      const auto dialect = verb == "hosts" ? HostDialect::kDslaunch : HostDialect::kDeepSpeed;
      for (const Host& host : parse_hostfile(text, "hosts", dialect)) {
        out += fmt::format("{} {}\n", host.name, host.slots);
      }
    }
  } catch (const UsageError& error) {
    out = std::string("error: ") + error.what();
  }
  return out;
}

TEST_CASE("good and bad hostfiles and node lists", "[launcher]") {
  testing::run_golden("hostfile.txt", answer);
}

TEST_CASE("hostfiles that are too large are refused before they cost anything", "[launcher]") {
  CHECK_THROWS_AS(parse_hostfile(std::string(size_t{10} << 20, 'a'), "h", HostDialect::kDslaunch),
                  UsageError);
  std::string many;
  for (int i = 0; i < 70000; ++i) many += fmt::format("n{} slots=1\n", i);
  CHECK_THROWS_WITH(parse_hostfile(many, "h", HostDialect::kDslaunch),
                    Catch::Contains("more than 65536 hosts"));
  CHECK_THROWS_AS(expand_node_list(std::string(size_t{2} << 20, 'a')), UsageError);
  const std::string long_name(1000, 'a');
  CHECK_THROWS_WITH(expand_node_list(fmt::format("{}[1-60000]", long_name)),
                    Catch::Contains("too long"));
  CHECK_THROWS_AS(expand_node_list("n[1-1000000000]"), UsageError);
  CHECK_THROWS_AS(expand_node_list("n[1-60000],m[1-60000]"), UsageError);
  CHECK_THROWS_AS(expand_node_list("a[1-300]b[1-300]"), UsageError);
}

TEST_CASE("lines of one host are counted up to what a host may have", "[launcher]") {
  std::string many;
  for (int64_t i = 0; i < kMaxSlots; ++i) many += "h\n";
  const HostPool pool = parse_hostfile(many, "h", HostDialect::kDslaunch);
  CHECK(pool == HostPool{{"h", kMaxSlots, false}});
  CHECK_THROWS_WITH(parse_hostfile(many + "h\n", "h", HostDialect::kDslaunch),
                    Catch::Contains("h:4097:1: more than 4096 lines name h"));
}

const SlotMap kHosts = {{"w0", {0, 1, 2, 3}}, {"w1", {0, 1, 2, 3}}};

TEST_CASE("filters keep or drop hosts and slots", "[launcher]") {
  CHECK(filter_slots(kHosts, "", "") == kHosts);
  CHECK(filter_slots(kHosts, "w1:2,0,2@w0", "") == SlotMap{{"w0", {0, 1, 2, 3}}, {"w1", {0, 2}}});
  CHECK(filter_slots(kHosts, "", "w0@w1:1") == SlotMap{{"w1", {0, 2, 3}}});
  CHECK_THROWS_AS(filter_slots(kHosts, "w0", "w1"), UsageError);
  CHECK_THROWS_AS(filter_slots(kHosts, "w2", ""), UsageError);
  CHECK_THROWS_AS(filter_slots(kHosts, "", "w0:4"), UsageError);
  CHECK_THROWS_AS(filter_slots(kHosts, "w0:1:2", ""), UsageError);
  CHECK_THROWS_AS(filter_slots(kHosts, "w0:1,", ""), UsageError);
}

TEST_CASE("an IPv6 address stands in brackets within a filter", "[launcher]") {
  const SlotMap hosts = {{"fd00::1", {0, 1}}, {"fd00::2", {0, 1}}};
  CHECK(filter_slots(hosts, "[fd00::1]:1@[fd00::2]", "") ==
        SlotMap{{"fd00::1", {1}}, {"fd00::2", {0, 1}}});
  CHECK(filter_slots(hosts, "", "[fd00::2]") == SlotMap{{"fd00::1", {0, 1}}});
  CHECK_THROWS_AS(filter_slots(hosts, "fd00::1", ""), UsageError);
  CHECK_THROWS_AS(filter_slots(hosts, "[fd00::1", ""), UsageError);
  CHECK_THROWS_AS(filter_slots(hosts, "[fd00::1]x:1", ""), UsageError);
}

TEST_CASE("a slot counts once, on the largest host, too", "[launcher]") {
  CHECK(filter_slots({{"w", {3, 1, 3, 2, 1}}}, "w", "") == SlotMap{{"w", {3, 1, 2}}});
  const HostPool pool = {{"w", int64_t{1} << 20}};
  CHECK(select_slots(pool, "", "w:7", HostDialect::kDslaunch)[0].slots.size() == (1 << 20) - 1);
}

TEST_CASE("a host that is included as a whole keeps its slots, but for the reference's dialect",
          "[launcher]") {
  const HostPool pool = {{"w0", 2}, {"w1", 3}};
  CHECK(select_slots(pool, "w1", "", HostDialect::kDslaunch) == SlotMap{{"w1", {0, 1, 2}}});
  CHECK(select_slots(pool, "w1", "", HostDialect::kDeepSpeed).empty());
  CHECK(select_slots(pool, "", "w0:1", HostDialect::kDslaunch) ==
        SlotMap{{"w0", {0}}, {"w1", {0, 1, 2}}});
  CHECK_THROWS_AS(select_slots(pool, "w0:7", "", HostDialect::kDslaunch), UsageError);
  CHECK(select_slots(pool, "w0:7", "", HostDialect::kDeepSpeed) == SlotMap{{"w0", {7}}});
  CHECK_THROWS_AS(select_slots({{"w0", int64_t{1} << 40}}, "", "", HostDialect::kDslaunch),
                  UsageError);
}

TEST_CASE("world information survives its text form", "[launcher]") {
  CHECK(encode_world_info({{"worker-0", int64_t{4}}, {"worker-1", int64_t{4}}}) ==
        "eyJ3b3JrZXItMCI6IDQsICJ3b3JrZXItMSI6IDR9");
  const WorldInfo info =
      decode_world_info(encode_world_info({{"a", std::vector<int64_t>{0, 2}}, {"b", int64_t{3}}}));
  REQUIRE(info.size() == 2);
  CHECK(std::get<std::vector<int64_t>>(info[0].slots) == std::vector<int64_t>{0, 2});
  CHECK(std::get<int64_t>(info[1].slots) == 3);
  CHECK_THROWS_AS(decode_world_info("!"), ConfigError);
  CHECK_THROWS_AS(decode_world_info("eyJhIjogdHJ1ZX0="), ConfigError);
}

TEST_CASE("node counts and core lists", "[launcher]") {
  CHECK(parse_node_count(" 3", Elasticity::kOff).min == 3);
  CHECK(parse_node_count("8:2", Elasticity::kOn).max == 2);
  CHECK_THROWS_AS(parse_node_count("2:8", Elasticity::kOff), UsageError);
  CHECK_THROWS_AS(parse_node_count(":8", Elasticity::kOn), UsageError);
  CHECK_THROWS_AS(parse_node_count("1:2:3", Elasticity::kOn), UsageError);
  CHECK(parse_core_list("0,2-4,6") == std::vector<int>{0, 2, 3, 4, 6});
  for (const char* bad : {"", "1,1", "8,2-6", "1-", "-1-3", "1,,2", "3-1", "0-99999999", "x"}) {
    CHECK_THROWS_AS(parse_core_list(bad), UsageError);
  }
}

}  // namespace
}  // namespace ds
