// What is wrong with a configuration, collected: how it is told, how much of it, and which errors
// turn into notes.
#include "config/reader/problem.h"

#include <fmt/format.h>

#include "config/origins.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {

namespace {

Origin place(int line) { return {std::make_shared<const std::string>("f"), line, 1}; }

std::string thrown_by(const Problems& problems) {
  try {
    problems.throw_if_any();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a problem is told with its place and key where it has them", "[config]") {
  CHECK(Problem{.path = "a.b", .origin = place(3), .message = "is odd"}.text() ==
        "f:3:1: a.b: is odd");
  CHECK(Problem{.path = "", .origin = place(3), .message = "is odd"}.text() == "f:3:1: is odd");
  CHECK(Problem{.path = "a.b", .origin = {}, .message = "is odd"}.text() == "a.b: is odd");
  CHECK(Problem{.path = "", .origin = {}, .message = "is odd"}.text() == "is odd");
}

TEST_CASE("errors are thrown together, in order and without the notes", "[config]") {
  Problems problems;
  CHECK_NOTHROW(problems.throw_if_any());
  problems.note("a", place(1), "only a note");
  CHECK_FALSE(problems.has_errors());
  CHECK_NOTHROW(problems.throw_if_any());
  problems.error(Basis::kOwn, "b", place(2), "second");
  problems.note("c", place(3), "another note");
  problems.error(Basis::kDeepSpeed, "a", place(1), "first");
  CHECK(problems.has_errors());
  CHECK(thrown_by(problems) == "f:2:1: b: second\nf:1:1: a: first");
  CHECK(problems.all().size() == 4);
}

TEST_CASE("beyond two hundred problems only their number grows", "[config]") {
  Problems problems;
  for (size_t i = 0; i < Problems::kMostReported; ++i) {
    problems.error(Basis::kOwn, fmt::format("k{}", i), {}, "is odd");
  }
  CHECK(problems.left_out() == 0);
  CHECK_THAT(thrown_by(problems), !Catch::Contains("more"));
  for (int i = 0; i < 3; ++i) problems.error(Basis::kOwn, "late", {}, "is odd");
  CHECK(problems.all().size() == Problems::kMostReported);
  CHECK(problems.left_out() == 3);
  CHECK_THAT(thrown_by(problems), Catch::EndsWith("k199: is odd\n... and 3 more"));
  CHECK_THAT(thrown_by(problems), !Catch::Contains("late"));
}

TEST_CASE("errors take the places of notes, so that none is hidden", "[config]") {
  Problems problems;
  problems.error(Basis::kOwn, "early", {}, "is odd");
  for (size_t i = 0; i < Problems::kMostReported; ++i) {
    problems.note(fmt::format("k{}", i), {}, "is unknown");
  }
  problems.error(Basis::kOwn, "late", {}, "is odd");
  CHECK(problems.all().size() == Problems::kMostReported);
  CHECK(problems.left_out() == 2);
  CHECK(problems.all().front().path == "early");
  CHECK(problems.all().back().path == "late");
  CHECK_THAT(thrown_by(problems), Catch::Contains("late: is odd"));
}

TEST_CASE("a path is within a section by whole keys", "[config]") {
  CHECK(is_within("a.b", "a"));
  CHECK(is_within("a", "a"));
  CHECK(is_within("a[0].b", "a"));
  CHECK(is_within("a.b.c", "a.b"));
  CHECK_FALSE(is_within("ab", "a"));
  CHECK_FALSE(is_within("a_b.c", "a"));
  CHECK_FALSE(is_within("a", "a.b"));
  CHECK_FALSE(is_within("b.a", "a"));
}

TEST_CASE("only errors of our own soften, and say why", "[config]") {
  Problems problems;
  problems.error(Basis::kOwn, "a.x", {}, "is odd");
  problems.error(Basis::kDeepSpeed, "a.y", {}, "is odd");
  problems.note("a.z", {}, "is old");
  problems.error(Basis::kOwn, "b", {}, "is odd");
  problems.soften([](const Problem& problem) { return is_within(problem.path, "a"); },
                  "while a is off");
  const auto told = [&](size_t i) {
    const Problem& problem = problems.all()[i];
    return (problem.severity == Severity::kError ? "error " : "note ") + problem.text();
  };
  CHECK(told(0) == "note a.x: is odd; has no effect while a is off");
  CHECK(told(1) == "error a.y: is odd");
  CHECK(told(2) == "note a.z: is old");
  CHECK(told(3) == "error b: is odd");
}

TEST_CASE("what stands nowhere itself is complained about where its list or section stands",
          "[config]") {
  const Origins origins{{"a", place(1)}, {"a.b", place(2)}};
  CHECK(origin_near(origins, "a.b").line == 2);
  CHECK(origin_near(origins, "a.b[3]").line == 2);
  CHECK(origin_near(origins, "a.b[3].c").line == 2);
  CHECK(origin_near(origins, "a.c.d").line == 1);
  CHECK(origin_near(origins, "c").source == nullptr);
}

TEST_CASE("a message that begins with a key is about it, one that begins with a file is not",
          "[config]") {
  const auto split = [](const char* message) {
    const KeyMessage said = split_key(message);
    return said.key + "|" + said.what;
  };
  CHECK(split("aio.block_size: 5, expected: 6") == "aio.block_size|5, expected: 6");
  CHECK(split("optimizer.param_groups[2]: odd") == "optimizer.param_groups[2]|odd");
  CHECK(split("optimizer.param_groups[2].lr: odd") == "optimizer.param_groups[2].lr|odd");
  CHECK(split("aio.block_sice: 5") == "|aio.block_sice: 5");
  CHECK(split("data.bin: too short") == "|data.bin: too short");
  CHECK(split("aio.block_size is 5") == "|aio.block_size is 5");
  CHECK(split("") == "|");
}

}  // namespace ds
