// Work of standard operations on shapes small enough to count by hand.
#include "kernels/flops.h"

#include "core/error.h"
#include "tests/support/catch.h"

using namespace ds;
using namespace ds::kernels;
using Sizes = std::vector<int64_t>;

TEST_CASE("matrix products count two flops per multiply-accumulate", "[kernels]") {
  CHECK(linear_work(Sizes{2, 3, 4}, 5) == Work{240, 120});
  CHECK(matmul_work(Sizes{2, 3}, Sizes{3, 4}) == Work{48, 24});
  CHECK(addmm_work(Sizes{2, 4}, Sizes{2, 3}, Sizes{3, 4}) == Work{56, 24});
  CHECK(attention_work(Sizes{1, 2, 3}, Sizes{1, 4, 3}, Sizes{1, 4, 5}) == Work{128, 64});
}

TEST_CASE("element-wise work counts the broadcast result", "[kernels]") {
  CHECK(broadcast_work(Sizes{2, 1, 3}, Sizes{4, 1}).flops == 24);
  CHECK(broadcast_work({}, {}).flops == 1);
  CHECK_THROWS_AS(broadcast_work(Sizes{2}, Sizes{3}), ConfigError);
  CHECK(per_element_work(Sizes{2, 3}, 5).flops == 30);
}

TEST_CASE("convolutions count the kernel once per output position", "[kernels]") {
  const ConvShape conv{.kernel = {3, 3},
                       .stride = {2, 1},
                       .padding = {1, 0},
                       .dilation = {1, 2},
                       .in = 2,
                       .out = 4,
                       .groups = 2};
  CHECK(conv_output(Sizes{5, 7}, conv) == Sizes{3, 3});
  CHECK(conv_work(Sizes{1, 2, 5, 7}, conv, Bias::kYes) == Work{2 * 9 * 2 * 2 * 9 + 4 * 9, 324});
  CHECK(transposed_conv_work(Sizes{1, 2, 5, 7}, conv, Bias::kNo).macs == 9 * 2 * 2 * 35);
  const ConvShape large{{4, 3}, {3, 1}, {0, 0}, {1, 1}, 4, 5};  // larger than its input
  CHECK(transposed_conv_work(Sizes{3, 4, 3, 6}, large, Bias::kYes) ==
        transposed_conv_work(Sizes{3, 4, 3, 6}, large, Bias::kNo));
  CHECK(transposed_output(Sizes{5}, {{3}, {2}, {1}, {1}}, Sizes{1}) == Sizes{10});
  CHECK_THROWS_AS(conv_output(Sizes{2, 2}, conv), ConfigError);
  CHECK_THROWS_AS(conv_work(Sizes{1, 3, 5, 7}, conv, Bias::kNo), ConfigError);
  CHECK_THROWS_AS(conv_work(Sizes{1, 2, 5}, conv, Bias::kNo), InternalError);
}

TEST_CASE("interpolation counts by size or by scale", "[kernels]") {
  const std::vector<double> scale{2};
  CHECK(interpolate_work(Sizes{1, 2, 3, 3}, Sizes{6, 5}, {}).flops == 30);
  CHECK(interpolate_work(Sizes{1, 2, 3, 3}, {}, scale).flops == 72);
  CHECK(interpolate_work(Sizes{2, 3, 5, 5}, {}, std::vector{0.5}).flops == 37);
  CHECK_THROWS_AS(interpolate_work(Sizes{1, 2, 3, 3}, {}, {}), ConfigError);
  CHECK_THROWS_AS(interpolate_work(Sizes{1, 2, 3, 3}, {}, std::vector<double>{1, 2, 3}),
                  ConfigError);
}

TEST_CASE("einsum counts all indices, twice when one is summed", "[kernels]") {
  const auto flops = [](std::string_view equation, std::vector<Sizes> shapes) {
    return einsum_work(equation, shapes).flops;
  };
  CHECK(flops("ij,jk->ik", {{3, 4}, {4, 5}}) == 121);
  CHECK(flops("ij, jk", {{3, 4}, {4, 5}}) == 121);
  CHECK(flops("se,sc->sec", {{4, 3}, {4, 2}}) == 25);
  CHECK(flops("ii->i", {{4, 4}}) == 5);
  CHECK_THROWS_AS(flops("ij,jk->ik", {{3, 4}, {5, 5}}), ConfigError);
  CHECK_THROWS_AS(flops("ij->i", {{3, 4, 5}}), ConfigError);
  CHECK_THROWS_AS(flops("ij,jk->ik", {{3, 4}}), ConfigError);
  CHECK_THROWS_AS(flops("i,i,i->i", {{3}, {3}, {3}}), Unsupported);
}

TEST_CASE("recurrent layers count gates of the first direction", "[kernels]") {
  const RecurrentShape rnn{.in = 8, .hidden = 16, .bias = Bias::kNo};
  CHECK(recurrent_work(2, rnn).flops == 1504);
  CHECK(recurrent_parameters(rnn) == 384);
  const RecurrentShape both{Recurrent::kLstm, 3, 2, 2, Bias::kYes, 2};
  CHECK(recurrent_parameters(both) == 2 * (8 * (3 + 2 + 2) + 8 * (4 + 2 + 2)));
}

TEST_CASE("work is proportional to every size of a product", "[kernels]") {
  const Work one = matmul_work(Sizes{2, 3, 5}, Sizes{2, 5, 7});
  CHECK(one.flops == 2 * one.macs);
  CHECK(matmul_work(Sizes{2, 6, 5}, Sizes{2, 5, 7}).macs == 2 * one.macs);
  CHECK(matmul_work(Sizes{2, 3, 10}, Sizes{2, 10, 7}).macs == 2 * one.macs);
  CHECK(matmul_work(Sizes{2, 3, 5}, Sizes{2, 5, 14}).macs == 2 * one.macs);
  CHECK(matmul_work(Sizes{4, 3, 5}, Sizes{4, 5, 7}).macs == 2 * one.macs);
  Work sum = one;
  sum += one;
  CHECK(sum == matmul_work(Sizes{4, 3, 5}, Sizes{4, 5, 7}));
  CHECK(linear_work(Sizes{5}, 3) == Work{30, 15});
  CHECK(numel(Sizes{}) == 1);
  CHECK(numel(Sizes{3, 0, 2}) == 0);
  CHECK_THROWS_WITH(matmul_work(Sizes{}, Sizes{3, 4}), Catch::Contains("a scalar operand"));
  CHECK_THROWS_WITH(attention_work(Sizes{3}, Sizes{4, 3}, Sizes{4, 5}),
                    Catch::Contains("operands need two axes"));
}

TEST_CASE("einsum refuses an equation with the part that does not fit", "[kernels]") {
  struct Case {
    std::string_view equation;
    std::vector<Sizes> shapes;
    const char* message;
  };
  const Case cases[] = {
      {"ij,jk->ik", {{3, 4}, {5, 6}}, "index j is 4 and 5"},
      {"ij,jk->ik", {{3, 4}}, "has 2 operands, 1 shapes were given"},
      {"ij->i", {{3, 4, 5}}, "'ij' names 2 axes, the operand has 3"},
      {"i.,j->ij", {{3}, {4}}, "'.' in 'i.,j->ij' is not understood"},
      {"i,j,k->ijk", {{3}, {4}, {5}}, "flops of 3 operands at once are not counted"}};
  for (const Case& one : cases) {
    CAPTURE(one.message);
    CHECK_THROWS_WITH(einsum_work(one.equation, one.shapes), Catch::Contains(one.message));
  }
  // An index of size 1 is spread over the other's.
  CHECK(einsum_work("ij,ij->ij", std::vector<Sizes>{{3, 1}, {3, 4}}).flops == 13);
  CHECK(einsum_work("i j , j k -> i k", std::vector<Sizes>{{3, 4}, {4, 5}}).flops == 121);
}

TEST_CASE("recurrent layers of every kind are counted by hand", "[kernels]") {
  // rows = gates * hidden; 2 rows in - rows + 2 rows hidden - rows + inner * hidden + 2 rows bias.
  const auto flops = [](Recurrent kind, Bias bias) {
    return recurrent_work(1, {.kind = kind, .in = 3, .hidden = 2, .bias = bias}).flops;
  };
  CHECK(flops(Recurrent::kRnn, Bias::kNo) == 2 * 2 * 3 - 2 + 2 * 2 * 2 - 2 + 2);
  CHECK(flops(Recurrent::kRnn, Bias::kYes) == flops(Recurrent::kRnn, Bias::kNo) + 4);
  CHECK(flops(Recurrent::kGru, Bias::kNo) == 2 * 6 * 3 - 6 + 2 * 6 * 2 - 6 + 7 * 2);
  CHECK(flops(Recurrent::kLstm, Bias::kNo) == 2 * 8 * 3 - 8 + 2 * 8 * 2 - 8 + 10 * 2);
  const RecurrentShape two{.in = 3, .hidden = 2, .layers = 2, .directions = 2};
  CHECK(recurrent_work(5, two).flops % (5 * 2) == 0);
  CHECK(recurrent_work(0, two).flops == 0);
}
