// How near scores come to values.
#include "rankd/verbs/classes/value_figures.h"

#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds {
namespace {

using Numbers = std::vector<double>;

// The figures are numpy.corrcoef's, of the numbers and of their ranks.
TEST_CASE("correlations are those of numpy", "[rankd]") {
  const Numbers scores{1.0, 2.5, 2.5, -4.0, 0.5, 9.0}, values{0.5, 3.0, 1.0, -2.0, 0.5, 2.0};
  CHECK(pearson(scores, values).value() == Approx(0.7618694227).epsilon(1e-9));
  CHECK(spearman(scores, values).value() == Approx(0.8823529412).epsilon(1e-9));
  CHECK(mean_absolute_error(scores, values) == Approx(1.9166666667));
  CHECK(pearson({1, 2, 3}, {-2, -4, -6}).value() == Approx(-1));
  CHECK(!pearson({1, 1, 1}, {1, 2, 3}));
  CHECK(!pearson({1, 2, 3}, {4, 4, 4}));
  CHECK(!spearman({5}, {4}));
}

TEST_CASE("a class is predicted by a score above 0, and holds from one half on", "[rankd]") {
  HoldTally tally = hold_tally({0.1, -0.1, 0.0, 3.0}, {1.0, 0.5, 0.0, 0.49});
  CHECK(tally.holds == 2);
  CHECK(tally.predicted == 2);
  CHECK(tally.right == 1);
  CHECK(tally.f1() == Approx(0.5));
  CHECK(HoldTally().f1() == 0);
  tally += tally;
  CHECK(tally.holds == 4);
  CHECK(tally.f1() == Approx(0.5));
}

TEST_CASE("rows that count are kept with the values of their sample", "[rankd]") {
  testing::TestStream s;
  ScoredValues scored;
  // Two samples of two rows, of which the second one and the first one count.
  scored.on_scores(s.stream,
                   testing::upload(std::vector<float>{9, 9, 1, -2, -3, 4, 9, 9}, {4, 2}, s.stream),
                   testing::upload(std::vector<int32_t>{-1, 0, 0, -1}, {4}, s.stream),
                   testing::upload(std::vector<float>{1, 0, 1, 1}, {2, 2}, s.stream));
  CHECK(scored.rows() == 2);
  CHECK(scored.scores_of(0) == Numbers{1, -3});
  CHECK(scored.scores_of(1) == Numbers{-2, 4});
  CHECK(scored.values_of(0) == Numbers{1, 1});
  CHECK(scored.values_of(1) == Numbers{0, 1});
  CHECK(share_of_exact(scored, 2) == 0.5);
}

}  // namespace
}  // namespace ds
