// Which token is drawn: each filter by itself and together, masks, and logits that allow none.
#include "train/token_sampler.h"

#include <cmath>
#include <limits>
#include <set>

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

const std::vector<float> kLogits{0.0F, std::log(4.0F), std::log(2.0F), std::log(1.0F),
                                 std::log(3.0F)};

// Every token that some uniform number draws.
std::set<int32_t> drawn(const SamplerOptions& options, std::vector<int32_t> never = {}) {
  TokenSampler sampler(options, std::move(never));
  std::set<int32_t> ids;
  for (int i = 0; i < 1000; ++i) {
    std::vector<float> logits = kLogits;
    ids.insert(sampler.draw(logits, static_cast<float>(i) / 1000));
  }
  return ids;
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
