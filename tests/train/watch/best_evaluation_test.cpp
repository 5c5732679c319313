// Which evaluation is the best one, and when a run is over.
#include "train/watch/best_evaluation.h"

#include <limits>
#include <vector>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

struct Heard {
  std::vector<int64_t> best;  // steps that were
  int64_t over_after = 0;     // how many evaluations; 0: it never was
};

Heard heard(const StoppingRule& rule, const std::vector<double>& losses) {
  BestEvaluation best(rule);
  Heard out;
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto step = static_cast<int64_t>(i) + 1;
    if (best.hear(step, losses[i])) out.best.push_back(step);
    if (best.is_over() && out.over_after == 0) out.over_after = step;
  }
  return out;
}

using Steps = std::vector<int64_t>;

TEST_CASE("an evaluation is the best if its loss is less than all before", "[train]") {
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  CHECK(heard({}, {3, 2, 2, 4, 1}).best == Steps{1, 2, 5});
  CHECK(heard({}, {kNothing, kInfinite, 3, kNothing, 2}).best == Steps{3, 5});
  CHECK(heard({}, {3, 4, 4, 4, 4, 4, 4}).over_after == 0);
}

TEST_CASE("a run is over after so many evaluations that are no better", "[train]") {
  CHECK(heard({.patience = 2}, {3, 4, 2, 4, 5}).over_after == 5);
  CHECK(heard({.patience = 2}, {3, 3, 3}).over_after == 3);
  CHECK(heard({.patience = 1}, {3, 2, 1}).over_after == 0);
  // A loss that is less by no more than the threshold is the best one, and no better.
  const Heard slow = heard({.patience = 2, .threshold = 0.5}, {3, 2.75, 2.5, 1});
  CHECK(slow.over_after == 3);
  CHECK(heard({.patience = 2, .threshold = 0.25}, {3, 2.75, 2.5}).over_after == 3);
  CHECK(slow.best == Steps{1, 2, 3, 4});
  CHECK(heard({.patience = 2, .threshold = 0.5}, {3, 2.75, 2}).over_after == 0);
}

TEST_CASE("what is known of the best evaluation goes with a checkpoint", "[train]") {
  BestEvaluation best({.patience = 3});
  CHECK(best.text("m").empty());
  best.hear(2, 0.1);
  best.saved_as("global_step2");
  best.hear(4, 0.3);
  BestEvaluation again({.patience = 3});
  CHECK(again.restore(best.text("m"), "m"));
  CHECK(again.text("m") == best.text("m"));
  CHECK(again.loss() == 0.1);
  CHECK(again.step() == 2);
  CHECK(again.worse() == 1);
  CHECK(again.tag() == "global_step2");
  CHECK_FALSE(again.hear(6, 0.1));
  CHECK_FALSE(again.restore(best.text("m"), "another"));
  CHECK_FALSE(again.loss());
  CHECK(again.restore("", "m"));
  CHECK_FALSE(again.loss());
  CHECK(again.hear(6, 0.5));
  CHECK_THROWS_WITH(again.restore(R"({"step": 1, "worse": "x", "tag": "", "measure": "m"})", "m"),
                    "the best evaluation of a checkpoint has no integer \"worse\"");
  CHECK_THROWS_AS(again.restore(R"({"step": -1, "worse": 0, "tag": "", "measure": "m"})", "m"),
                  ValidationError);
  CHECK_THROWS_AS(again.restore("3", "m"), ValidationError);
}

}  // namespace
}  // namespace ds
