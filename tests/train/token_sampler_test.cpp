// Which token is drawn: each filter by itself and together, ties, masks, and logits that allow
// none; tests/golden/sampling has the distributions that transformers' formulas give, and those
// that transformers itself gives.
#include "train/evaluate/token_sampler.h"

#include <rapidjson/document.h>
#include <rapidjson/istreamwrapper.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <set>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

const std::vector<float> kLogits{0.0F, std::log(4.0F), std::log(2.0F), std::log(1.0F),
                                 std::log(3.0F)};

// Every token that some uniform number draws.
std::set<int32_t> drawn(const SamplerOptions& options, std::vector<int32_t> never = {},
                        const std::vector<int32_t>& before = {}) {
  TokenSampler sampler(options, std::move(never));
  std::set<int32_t> ids;
  for (int i = 0; i < 1000; ++i) {
    std::vector<float> logits = kLogits;
    ids.insert(sampler.draw(logits, static_cast<float>(i) / 1000, before));
  }
  return ids;
}

template <class T>
std::vector<T> numbers_of(const rapidjson::Value& list) {
  std::vector<T> out;
  for (const rapidjson::Value& item : list.GetArray()) out.push_back(item.Get<T>());
  return out;
}

// What the golden file leaves out changes nothing.
SamplerOptions options_of(const rapidjson::Value& settings) {
  const auto number = [&](const char* name, double otherwise) {
    return settings.HasMember(name) ? settings[name].GetDouble() : otherwise;
  };
  return {.temperature = number("temperature", 1),
          .top_k = static_cast<int64_t>(number("top_k", 0)),
          .top_p = number("top_p", 1),
          .min_p = number("min_p", 0),
          .repetition_penalty = number("repetition_penalty", 1)};
}

rapidjson::Document golden_file(const char* name) {
  std::ifstream file(testing::source_directory() + "/tests/golden/sampling/" + name);
  rapidjson::IStreamWrapper stream(file);
  rapidjson::Document out;
  out.ParseStream<rapidjson::kParseIterativeFlag>(stream);
  return out;
}

// How often each token is drawn for numbers that are spread evenly.
std::vector<int> drawn_of(const rapidjson::Value& golden, int draws) {
  TokenSampler sampler(options_of(golden["settings"]), {});
  const auto logits = numbers_of<float>(golden["logits"]);
  const auto before = numbers_of<int>(golden["before"]);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    std::vector<float> scores = logits;
    const float uniform = (static_cast<float>(i) + 0.5F) / static_cast<float>(draws);
    ++counts[static_cast<size_t>(sampler.draw(scores, uniform, before))];
  }
  return counts;
}

}  // namespace

TEST_CASE("temperature 0 takes the likeliest token, of equal ones the first", "[rankd]") {
  CHECK(drawn({.temperature = 0, .top_k = 0}) == std::set<int32_t>{1});
  TokenSampler sampler({.temperature = 0}, {});
  std::vector<float> equal{1, 7, 7};
  CHECK(sampler.draw(equal, 0.9F) == 1);
}

TEST_CASE("top-k draws from the k likeliest only, and 0 from all", "[rankd]") {
  CHECK(drawn({.temperature = 1, .top_k = 2}) == std::set<int32_t>{1, 4});
  CHECK(drawn({.temperature = 1, .top_k = 1}) == std::set<int32_t>{1});
  CHECK(drawn({.temperature = 1, .top_k = 0}).size() == 5);
  CHECK(drawn({.temperature = 1, .top_k = 99}).size() == 5);
  TokenSampler sampler({.temperature = 1, .top_k = 2}, {});
  std::vector<float> equal{5, 5, 5, 5};  // which are kept does not depend on luck
  CHECK(sampler.draw(equal, 0.99F) == 1);
}

TEST_CASE("top-p keeps the fewest tokens that make up the probability", "[rankd]") {
  // 4/11, 3/11, 2/11 and two of 1/11.
  CHECK(drawn({.temperature = 1, .top_k = 0, .top_p = 0.3}) == std::set<int32_t>{1});
  CHECK(drawn({.temperature = 1, .top_k = 0, .top_p = 0.5}) == std::set<int32_t>{1, 4});
  CHECK(drawn({.temperature = 1, .top_k = 0, .top_p = 0.7}) == std::set<int32_t>{1, 2, 4});
  CHECK(drawn({.temperature = 1, .top_k = 0, .top_p = 1e-9}) == std::set<int32_t>{1});
  // The first of the two that top-k leaves has 4/7: temperature and top-k come before top-p.
  CHECK(drawn({.temperature = 1, .top_k = 2, .top_p = 0.55}) == std::set<int32_t>{1});
  CHECK(drawn({.temperature = 1, .top_k = 2, .top_p = 0.6}) == std::set<int32_t>{1, 4});
  CHECK(drawn({.temperature = 0.1, .top_k = 0, .top_p = 0.9}) == std::set<int32_t>{1});
}

TEST_CASE("tokens are drawn as often as their probability says", "[rankd]") {
  TokenSampler sampler({.temperature = 1, .top_k = 0}, {});
  std::vector<int> counts(kLogits.size());
  for (int i = 0; i < 11000; ++i) {
    std::vector<float> logits = kLogits;
    ++counts[static_cast<size_t>(sampler.draw(logits, (static_cast<float>(i) + 0.5F) / 11000))];
  }
  const std::vector<int> expected{1000, 4000, 2000, 1000, 3000};
  for (size_t i = 0; i < counts.size(); ++i) CHECK(std::abs(counts[i] - expected[i]) <= 2);
}

TEST_CASE(
    "each filter, and several in their order, leave the distributions of transformers' formulas",
    "[rankd]") {
  const rapidjson::Document cases = golden_file("distributions.json");
  REQUIRE(cases.IsArray());
  REQUIRE(cases.Size() == 16);
  constexpr int kDraws = 1 << 14;
  for (const rapidjson::Value& golden : cases.GetArray()) {
    const auto expected = numbers_of<double>(golden["probabilities"]);
    const std::vector<int> counts = drawn_of(golden, kDraws);
    for (size_t id = 0; id < counts.size(); ++id) {
      CAPTURE(cases.Size(), &golden - cases.Begin(), id, expected[id], counts[id]);
      CHECK((expected[id] > 0 || counts[id] == 0));
      CHECK(std::abs(counts[id] - expected[id] * kDraws) < 1.1);
    }
  }
}

TEST_CASE("what is drawn, and how often, is what transformers' own processors leave", "[rankd]") {
  const rapidjson::Document file = golden_file("transformers.json");
  REQUIRE(file["cases"].Size() == 150);
  constexpr int kDraws = 1 << 13;
  for (const rapidjson::Value& golden : file["cases"].GetArray()) {
    const std::vector<int> counts = drawn_of(golden, kDraws);
    const auto expected = numbers_of<double>(golden["probabilities"]);
    for (size_t id = 0; id < counts.size(); ++id) {
      CAPTURE(&golden - file["cases"].Begin(), id, expected[id], counts[id]);
      CHECK((expected[id] > 0 || counts[id] == 0));
      CHECK(std::abs(counts[id] - expected[id] * kDraws) < 1.2);
    }
  }
}

TEST_CASE("of equal logits at an edge as many stay as in transformers, but for top-k's k",
          "[rankd]") {
  const rapidjson::Document file = golden_file("transformers.json");
  REQUIRE(file["ties"].Size() == 13);
  for (const rapidjson::Value& golden : file["ties"].GetArray()) {
    CAPTURE(&golden - file["ties"].Begin());
    const auto logits = numbers_of<float>(golden["logits"]);
    std::vector<float> theirs, ours;
    for (const int id : numbers_of<int>(golden["kept"]))
      theirs.push_back(logits[static_cast<size_t>(id)]);
    const std::vector<int> counts = drawn_of(golden, 1 << 12);
    for (size_t id = 0; id < counts.size(); ++id) {
      if (counts[id] > 0) ours.push_back(logits[id]);
    }
    std::ranges::sort(theirs, std::greater());
    std::ranges::sort(ours, std::greater());
    const int64_t k = options_of(golden["settings"]).top_k;
    if (k > 0 && std::ssize(theirs) > k) theirs.resize(static_cast<size_t>(k));
    CHECK(ours == theirs);
  }
}

TEST_CASE("min-p keeps what is likely enough beside the likeliest, and what just is", "[rankd]") {
  // 4/11, 3/11, 2/11 and two of 1/11.
  CHECK(drawn({.temperature = 1, .top_k = 0, .min_p = 0.8}) == std::set<int32_t>{1});
  CHECK(drawn({.temperature = 1, .top_k = 0, .min_p = 0.7}) == std::set<int32_t>{1, 4});
  CHECK(drawn({.temperature = 1, .top_k = 0, .min_p = 0.4}) == std::set<int32_t>{1, 2, 4});
  CHECK(drawn({.temperature = 1, .top_k = 0, .min_p = 1}) == std::set<int32_t>{1});
  // After temperature: at 2 the shares are the square roots, of which 3/4 gives 0.87.
  CHECK(drawn({.temperature = 2, .top_k = 0, .min_p = 0.8}) == std::set<int32_t>{1, 4});
  TokenSampler sampler({.temperature = 1, .top_k = 0, .min_p = 1}, {});
  std::set<int32_t> ids;
  for (const float uniform : {0.1F, 0.5F, 0.9F}) {
    std::vector<float> equal{5, 5, 4, 5};
    ids.insert(sampler.draw(equal, uniform));
  }
  CHECK(ids == std::set<int32_t>{0, 1, 3});
}

TEST_CASE("the repetition penalty makes what came before less likely, whatever its sign",
          "[rankd]") {
  const std::vector<float> logits{2, -1, 1.5F, -0.9F};
  const auto greedy = [&](double penalty, std::vector<int32_t> never,
                          const std::vector<int32_t>& before) {
    TokenSampler sampler({.temperature = 0, .repetition_penalty = penalty}, std::move(never));
    std::vector<float> scores = logits;
    return sampler.draw(scores, 0, before);
  };
  CHECK(greedy(1.5, {}, {}) == 0);
  CHECK(greedy(1, {}, {0}) == 0);
  CHECK(greedy(1.5, {}, {0}) == 2);        // 2 / 1.5 < 1.5
  CHECK(greedy(1.2, {}, {0, 0, 0}) == 0);  // 2 / 1.2 > 1.5: once, however often it came
  CHECK(greedy(1.2, {0, 2}, {3}) == 1);    // -0.9 * 1.2 < -1
  CHECK(greedy(0.5, {0, 2}, {1}) == 1);    // -1 * 0.5 > -0.9
  CHECK(drawn({.temperature = 1, .top_k = 0, .min_p = 0.9, .repetition_penalty = 2}, {}, {1}) ==
        std::set<int32_t>{4});
  // An id that is never drawn stays so, though it came before.
  CHECK(greedy(0.5, {0}, {0}) == 2);
}

TEST_CASE("ids that the tokenizer does not know are never drawn", "[rankd]") {
  CHECK(drawn({.temperature = 0}, {1}) == std::set<int32_t>{4});
  CHECK(drawn({.temperature = 1, .top_k = 0}, {0, 1, 4}) == std::set<int32_t>{2, 3});
  CHECK(drawn({.temperature = 1, .top_k = 2}, {1, 900}) == std::set<int32_t>{2, 4});
}

TEST_CASE("logits that allow no token are an error", "[rankd]") {
  TokenSampler sampler({.temperature = 1}, {0, 1});
  std::vector<float> all_masked{1, 2};
  CHECK_THROWS_AS(sampler.draw(all_masked, 0.5F), ValidationError);
  std::vector<float> damaged{1, 2, std::numeric_limits<float>::quiet_NaN()};
  CHECK_THROWS_AS(sampler.draw(damaged, 0.5F), ValidationError);
}
