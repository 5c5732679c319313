// What records say of numbers, and of several classes.
#include "data/score_values.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Floats = std::vector<float>;

ScoreLabels numbers(std::vector<std::string> names) {
  return {.problem = ClassifierProblem::kNumbers, .names = std::move(names)};
}
const ScoreLabels kSeveral{.problem = ClassifierProblem::kSeveralClasses,
                           .names = {"joy", "anger", "fear"}};

TEST_CASE("a class is no value, and each label of the others has one", "[data]") {
  CHECK(ScoreLabels{.names = {"a", "b"}}.values() == 0);
  CHECK(numbers({"a"}).values() == 1);
  CHECK(kSeveral.values() == 3);
}

TEST_CASE("numbers are told by a number, or by a list of them", "[data]") {
  CHECK(score_values(numbers({"a"}), "-2.5", "f:1") == Floats{-2.5F});
  CHECK(score_values(numbers({"a"}), "3", "f:1") == Floats{3});
  CHECK(score_values(numbers({"a"}), "[1e-3]", "f:1") == Floats{1e-3F});
  CHECK(score_values(numbers({"a"}), "[0e90]", "f:1") == Floats{0});
  CHECK(score_values(numbers({"a", "b"}), "[0.1, -7]", "f:1") == Floats{0.1F, -7});
}

TEST_CASE("classes hold that are named, or by a number from 0 to 1 for each", "[data]") {
  for (const auto& [text, holds] :
       std::initializer_list<std::pair<const char*, Floats>>{{"[]", {0, 0, 0}},
                                                             {"anger", {0, 1, 0}},
                                                             {"2", {0, 0, 1}},
                                                             {R"(["fear", "joy"])", {1, 0, 1}},
                                                             {R"(["0"])", {1, 0, 0}},
                                                             {"[0, 1, 0.25]", {0, 1, 0.25F}},
                                                             {"[2]", {0, 0, 1}},
                                                             {"[2, 0]", {1, 0, 1}},
                                                             {"[0, 2, 1]", {1, 1, 1}},
                                                             {"[0, 1, 1]", {0, 1, 1}},
                                                             {"[true, false, true]", {1, 0, 1}}}) {
    CAPTURE(text);
    CHECK(score_values(kSeveral, text, "f:1") == holds);
  }
}

TEST_CASE("what tells no values is refused with its place", "[data]") {
  const auto refused = [](const ScoreLabels& labels, const std::string& text, const char* why) {
    CAPTURE(text);
    CHECK_THROWS_WITH(score_values(labels, text, "f:7"),
                      Catch::StartsWith("f:7: ") && Catch::Contains(why));
  };
  refused(numbers({"a"}), "", "expected a number");
  refused(numbers({"a"}), "high", "the label is \"high\", expected a number");
  refused(numbers({"a"}), "1.5 ", "expected a number");
  refused(numbers({"a"}), "nan", "a finite number");
  refused(numbers({"a"}), "1e39", "a finite number of 32 bits");
  refused(numbers({"a"}), "[1, 2]", "expected a number");
  refused(numbers({"a", "b"}), "1", "expected a list of 2 numbers");
  refused(numbers({"a", "b"}), "[1, \"x\"]", "expected a list of 2 numbers");
  refused(numbers({"a", "b"}), "[1, 2", "a list of JSON");
  refused(kSeveral, "hate", "the class \"hate\" is none of the model's");
  const ScoreLabels two{.problem = ClassifierProblem::kSeveralClasses, .names = {"joy", "fear"}};
  refused(two, "[1]",
          "a list of 1 numbers, expected a number from 0 to 1 for each of the 2 classes");
  refused(kSeveral, "[0, 3]", "a list of 2 numbers, expected a number from 0 to 1 for each");
  refused(kSeveral, "[0, 0.5]", "or the names or the numbers of those that hold");
  refused(kSeveral, "[2, 2]", "a list of 2 numbers");
  refused(kSeveral, "[0, 2, 0]", "2, expected a number from 0 to 1 for each of the 3 classes");
  refused(kSeveral, "[0, -0.5, 0]", "-0.5, expected");
  refused(kSeveral, R"(["joy", 1])", "names alone");
  refused(kSeveral, R"(["joy", "joy"])", "twice");
  refused(kSeveral, R"([null])", "a list of JSON, of numbers or of names");
  refused(kSeveral, std::string(100, 'x'), "the class");
  refused(numbers({"a"}), std::string(100, '9') + "x", "...");
}

}  // namespace
}  // namespace ds
