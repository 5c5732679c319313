// Every front function refuses operands that do not fit before it does anything, and says which
// operand, what it has and what was expected. One table per family; each case is a call that is
// right but for one operand.
#include "tests/support/refusals.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/elementwise/activation.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/scaling.h"
#include "kernels/embedding/embedding.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/optimizer/rule_update.h"
#include "kernels/optimizer/update.h"
#include "kernels/reduce/dots.h"
#include "kernels/reduce/reduce.h"
#include "kernels/rotary/rope.h"
#include "kernels/softmax/softmax.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"

namespace ds::kernels {
namespace {

using namespace reference;
using refusals::check_refused, refusals::Maker;

TEST_CASE("activations refuse operands that do not fit", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const Tensor x = make({6}), x16 = make({6}, DType::kBF16), tokens = make({6}, DType::kI32);
  Tensor y = make({6}), short_y = make({5}), y16 = make({6}, DType::kF16), none;
  Tensor wide = make({2, 6}), narrow = make({2, 3}), none_wide = make({2, 0});
  const testing::PlacedInputs inputs(Rng(1, "refused"), 0, s);
  const DropoutMask mask = inputs.mask();
  check_refused({
      {"activation_forward: y has shape [5] (5 elements), expected 6 elements",
       [&] { activation_forward(s, Activation::kRelu, x, short_y); }},
      {"activation_forward: y is fp16, expected fp32",
       [&] { activation_forward(s, Activation::kRelu, x, y16); }},
      {"activation_forward: x is int32, expected fp32, bf16 or fp16",
       [&] { activation_forward(s, Activation::kRelu, tokens, y); }},
      {"activation_backward: dy is bf16, expected fp32",
       [&] { activation_backward(s, Activation::kSilu, x, x16, y); }},
      {"activation_backward: dx is undefined",
       [&] { activation_backward(s, Activation::kSilu, x, x, none); }},
      {"swiglu_forward: gate_up has shape [6] (6 elements), expected 12 elements",
       [&] { glu_forward(s, Activation::kSilu, x, narrow); }},
      {"swiglu_forward: y is undefined", [&] { glu_forward(s, Activation::kSilu, wide, none); }},
      {"swiglu_forward: y has shape [2, 0], expected rows of 0 elements",
       [&] { glu_forward(s, Activation::kSilu, wide, none_wide); }},
      {"swiglu_backward: dgate_up has shape [6] (6 elements), expected 12 elements",
       [&] { glu_backward(s, Activation::kSilu, wide, narrow, y); }},
      {"dropout: p is 1, expected 0 <= p < 1", [&] { dropout(s, x, 1.0F, mask, 1, y); }},
      {"dropout: p is -0.5, expected 0 <= p < 1", [&] { dropout(s, x, -0.5F, mask, 1, y); }},
      {"dropout: p is nan, expected 0 <= p < 1",
       [&] { dropout(s, x, std::numeric_limits<float>::quiet_NaN(), mask, 1, y); }},
      {"dropout: there are no numbers to drop by", [&] { dropout(s, x, 0.5F, {}, 1, y); }},
      {"dropout: y has shape [5]", [&] { dropout(s, x, 0.5F, mask, 1, short_y); }},
  });
}

TEST_CASE("streams of elements and reductions refuse operands that do not fit", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const Tensor x = make({6}), x16 = make({6}, DType::kBF16), tokens = make({6}, DType::kI32);
  Tensor y = make({6}), y5 = make({5}), bytes = make({6}, DType::kU8), y4 = make({4}), none;
  const Tensor total = make({1}, DType::kF64);
  check_refused({
      {"add: b is bf16, expected fp32", [&] { add(s, x, x16, y); }},
      {"add: a is int32", [&] { add(s, tokens, x, y); }},
      {"add: b has shape [6] (6 elements), expected 5", [&] { add(s, make({5}), x, y5); }},
      {"accumulate: x has shape [6] (6 elements), expected 5", [&] { accumulate(s, x, y5); }},
      {"accumulate: y is uint8", [&] { accumulate(s, x, bytes); }},
      {"scale: y is uint8", [&] { scale(s, 2, bytes); }},
      {"scale: y is undefined", [&] { scale(s, 2, none); }},
      {"cast: x is int32", [&] { cast(s, tokens, y); }},
      {"cast: x has shape [6] (6 elements), expected 5", [&] { cast(s, x, y5); }},
      {"sum_into: x is int32", [&] { sum_into(s, tokens, 1, Write::kOverwrite, total); }},
      {"sum_into: total is fp32, expected fp64",
       [&] { sum_into(s, x, 1, Write::kOverwrite, make({1})); }},
      {"sum_of_squares_into: x is undefined",
       [&] { sum_of_squares_into(s, {}, Write::kOverwrite, total); }},
      {"sum_of_squares_into: total has shape [2]",
       [&] { sum_of_squares_into(s, x, Write::kOverwrite, make({2}, DType::kF64)); }},
      {"all_finite: x is int32", [&] { static_cast<void>(all_finite(s, tokens)); }},
      {"column_sum: x has shape [6], expected rows of 4 elements",
       [&] { column_sum(s, x, Write::kOverwrite, y4); }},
      {"column_sum: y is uint8", [&] { column_sum(s, x, Write::kOverwrite, bytes); }},
  });
}

TEST_CASE("sums of products refuse operands that do not fit", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const Write write = Write::kOverwrite;
  const MatrixView x = matrix(make({2, 6}), 2, 6), other = matrix(make({2, 6}), 3, 4);
  const MatrixView bytes = matrix(make({2, 6}, DType::kU8), 2, 6);
  const MatrixView long_x{x.tensor, 2, 6, 7, 0}, crossed{x.tensor, 2, 6, 5, 0};
  Tensor two = make({2}), six = make({6}), two16 = make({2}, DType::kBF16), none;
  Tensor six8 = make({6}, DType::kU8);
  check_refused({
      {"row_dots: a is 2 x 6, b is 3 x 4", [&] { row_dots(s, x, other, write, two); }},
      {"row_dots: a is uint8, expected fp32, bf16 or fp16",
       [&] { row_dots(s, bytes, x, write, two); }},
      {"row_dots: a is undefined", [&] { row_dots(s, {}, x, write, two); }},
      {"row_dots: b ends at element 13 of a tensor of 12",
       [&] { row_dots(s, x, long_x, write, two); }},
      {"row_dots: b is 2 x 6 with row stride 5", [&] { row_dots(s, x, crossed, write, two); }},
      {"row_dots: out has shape [6] (6 elements), expected 2",
       [&] { row_dots(s, x, x, write, six); }},
      {"row_dots: out is bf16, expected fp32", [&] { row_dots(s, x, x, write, two16); }},
      {"row_dots: out is undefined", [&] { row_dots(s, x, x, write, none); }},
      {"column_dots: a is 3 x 4, b is 2 x 6", [&] { column_dots(s, other, x, write, six); }},
      {"column_dots: b is uint8", [&] { column_dots(s, x, bytes, write, six); }},
      {"column_dots: a ends at element 13", [&] { column_dots(s, long_x, x, write, six); }},
      {"column_dots: out has shape [2] (2 elements), expected 6",
       [&] { column_dots(s, x, x, write, two); }},
      {"column_dots: out is uint8", [&] { column_dots(s, x, x, write, six8); }},
      {"column_dots: out is undefined", [&] { column_dots(s, x, x, write, none); }},
  });
}

TEST_CASE("scaling by vectors refuses operands that do not fit", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const MatrixView x = matrix(make({2, 6}), 2, 6), other = matrix(make({2, 6}), 3, 4);
  const MatrixView bytes = matrix(make({2, 6}, DType::kU8), 2, 6), long_x{x.tensor, 2, 6, 7, 0};
  const Tensor two = make({2}), six = make({6}), six8 = make({6}, DType::kU8), none;
  const Tensor six16 = make({6}, DType::kBF16);
  Tensor y = make({6}), y2 = make({2}), y16 = make({6}, DType::kF16), y8 = make({6}, DType::kU8),
         nothing;
  check_refused({
      {"scale_columns: x is 2 x 6, y is 3 x 4", [&] { scale_columns(s, x, six, six, other); }},
      {"scale_columns: x is uint8", [&] { scale_columns(s, bytes, six, six, x); }},
      {"scale_columns: y is uint8", [&] { scale_columns(s, x, six, six, bytes); }},
      {"scale_columns: y is undefined", [&] { scale_columns(s, x, six, six, {}); }},
      {"scale_columns: y ends at element 13 of a tensor of 12",
       [&] { scale_columns(s, x, six, six, long_x); }},
      {"scale_columns: factors has shape [2] (2 elements), expected 6",
       [&] { scale_columns(s, x, two, none, x); }},
      {"scale_columns: factors is bf16, expected fp32",
       [&] { scale_columns(s, x, six16, none, x); }},
      {"scale_columns: bias has shape [2]", [&] { scale_columns(s, x, none, two, x); }},
      {"scale_columns: bias is uint8", [&] { scale_columns(s, x, six, six8, x); }},
      {"over_roots: x has shape [6] (6 elements), expected 2",
       [&] { over_roots(s, six, two, y2); }},
      {"over_roots: x is uint8", [&] { over_roots(s, six8, six, y); }},
      {"over_roots: squares has shape [2]", [&] { over_roots(s, six, two, y); }},
      {"over_roots: squares is bf16, expected fp32", [&] { over_roots(s, six, six16, y); }},
      {"over_roots: y is fp16, expected bf16", [&] { over_roots(s, six16, six, y16); }},
      {"over_roots: y is uint8, expected fp32", [&] { over_roots(s, six, six, y8); }},
      {"over_roots: y is undefined", [&] { over_roots(s, six, six, nothing); }},
  });
}

TEST_CASE("embeddings refuse operands that do not fit", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const Tensor tokens = make({6}, DType::kI32), table = make({9, 4}), flat = make({36});
  const Tensor positions = make({3, 4}), positions16 = make({3, 4}, DType::kBF16), none;
  Tensor y = make({6, 4}), y16 = make({6, 4}, DType::kF16), y5 = make({5, 4});
  Tensor dtable = make({9, 4}), dpositions = make({3, 4});
  check_refused({
      {"embedding_forward: the table is not a matrix",
       [&] { embedding_forward(s, tokens, flat, none, 3, 0, y); }},
      {"embedding_forward: tokens has shape [6] (6 elements), expected 5",
       [&] { embedding_forward(s, tokens, table, none, 3, 0, y5); }},
      {"embedding_forward: tokens is fp32, expected int32",
       [&] { embedding_forward(s, make({6}), table, none, 3, 0, y); }},
      {"embedding_forward: table is fp32, expected fp16",
       [&] { embedding_forward(s, tokens, table, none, 3, 0, y16); }},
      {"embedding_forward: positions is bf16, expected fp32",
       [&] { embedding_forward(s, tokens, table, positions16, 3, 0, y); }},
      {"embedding_forward: positions [0, 4) of 3",
       [&] { embedding_forward(s, tokens, table, positions, 4, 0, y); }},
      {"embedding_forward: positions [1, 4) of 3",
       [&] { embedding_forward(s, tokens, table, positions, 3, 1, y); }},
      {"embedding_forward: positions [-1, 2) of 3",
       [&] { embedding_forward(s, tokens, table, positions, 3, -1, y); }},
      {"embedding_forward: positions [0, 0) of 3",
       [&] { embedding_forward(s, tokens, table, positions, 0, 0, y); }},
      {"embedding_backward: order has shape [2, 6] (12 elements), expected 10",
       [&] { embedding_backward(s, token_order(s, tokens), y5, Write::kOverwrite, dtable); }},
      {"position_backward: length 4 of 3 positions",
       [&] { position_backward(s, y, 4, Write::kOverwrite, dpositions); }},
      {"position_backward: length 0 of 3 positions",
       [&] { position_backward(s, y, 0, Write::kOverwrite, dpositions); }},
  });
}

TEST_CASE("attention and rope refuse operands that do not fit", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const AttentionShape shape{2, 3, 4, 2, 8};  // 6 rows of 64
  const Tensor qkv = make({6, 64}), q = make({2, 32}), cache = make({2, 5, 16});
  const Tensor qkv16 = make({6, 64}, DType::kBF16), cache16 = make({2, 5, 16}, DType::kF16);
  Tensor y = make({6, 32}), lse = make({2, 4, 3}), lse16 = make({2, 4, 3}, DType::kBF16);
  Tensor dqkv = make({6, 64}), dqkv_small = make({6, 63}), decoded = make({2, 32});
  Tensor y16 = make({6, 32}, DType::kBF16), rotated = make({6, 64});
  const RotaryTable turns{.frequencies = {1, 0.5F, 0.25F, 0.125F}};
  const Tensor times = make({6});
  const auto forward = [&](AttentionShape with, const Tensor& packed, Tensor& to, Tensor& sums) {
    attention_forward(s, {with}, packed, to, sums);
  };
  const auto shaped = [&](int64_t heads, int64_t kv_heads, int64_t head_dim) {
    return AttentionShape{2, 3, heads, kv_heads, head_dim};
  };
  check_refused({
      {"all must be positive",
       [&] {
         forward({0, 3, 4, 2, 8}, qkv, y, lse);
       }},
      {"all must be positive",
       [&] {
         forward({2, 0, 4, 2, 8}, qkv, y, lse);
       }},
      {"all must be positive", [&] { forward(shaped(4, 0, 8), qkv, y, lse); }},
      {"4 query heads do not divide into 3 key heads",
       [&] { forward(shaped(4, 3, 8), qkv, y, lse); }},
      {"attention_forward: qkv has shape [6, 64] (384 elements), expected 480 elements",
       [&] { forward(shaped(6, 2, 8), qkv, y, lse); }},
      {"attention_forward: y is bf16, expected fp32", [&] { forward(shape, qkv, y16, lse); }},
      {"attention_forward: log_sum_exp is bf16, expected fp32",
       [&] { forward(shape, qkv16, y16, lse16); }},
      {"attention_forward: there are no numbers to drop by",
       [&] { attention_forward(s, {shape}, qkv, y, lse, {.p = 0.5F}); }},
      {"attention_backward: there are no numbers to drop by",
       [&] { attention_backward(s, {shape}, qkv, y, lse, y, dqkv, {.p = 0.5F}); }},
      {"attention_backward: dqkv has shape [6, 63] (378 elements), expected 384",
       [&] { attention_backward(s, {shape}, qkv, y, lse, y, dqkv_small); }},
      {"attention_backward: dy is bf16, expected fp32",
       [&] { attention_backward(s, {shape}, qkv, y, lse, y16, dqkv); }},
      {"attention_decode: 6 positions filled of a cache of 5",
       [&] {
         attention_decode(s, {{2, 6, 4, 2, 8}}, q, cache, cache, 5, decoded);
       }},
      {"attention_decode: cache_v is fp16, expected fp32",
       [&] { attention_decode(s, {shape}, q, cache, cache16, 5, decoded); }},
      {"attention_decode: cache_k has shape [2, 5, 16] (160 elements), expected 128",
       [&] { attention_decode(s, {shape}, q, cache, cache, 4, decoded); }},
      {"rope: 4 frequencies for heads of 7 elements",
       [&] { rope(s, shaped(4, 2, 7), turns, {}, Rotation::kForward, rotated); }},
      {"rope: 0 frequencies for heads of 8 elements",
       [&] { rope(s, shape, {}, {}, Rotation::kForward, rotated); }},
      {"rope: positions is fp32, expected int32",
       [&] { rope(s, shape, turns, {.rows = times}, Rotation::kForward, rotated); }},
      {"rope: qkv has shape [6, 64] (384 elements), expected 480",
       [&] { rope(s, shaped(6, 2, 8), turns, {}, Rotation::kForward, rotated); }},
  });
}

TEST_CASE("norms refuse operands that do not fit", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const Tensor x = make({3, 4}), gamma = make({4}), gamma16 = make({4}, DType::kBF16), none;
  const Tensor x16 = make({3, 4}, DType::kBF16), beta3 = make({3});
  Tensor y = make({3, 4}), mean = make({3}), inv = make({3}), inv4 = make({4});
  Tensor inv16 = make({3}, DType::kF16), sum = make({3, 4}), undefined;
  LayerNormGrads grads{.dgamma = make({4}), .dbeta = make({4})};
  LayerNormGrads mixed{.dgamma = make({4}), .dbeta = make({4}, DType::kBF16)};
  LayerNormGrads rms_only{.dgamma = make({4})}, beta_only{.dbeta = make({4})};
  check_refused({
      {"layer_norm: gamma is undefined",
       [&] { layer_norm(s, x, none, gamma, 1e-5F, y, mean, inv); }},
      {"layer_norm: x has shape [3, 4], expected rows of 5 elements",
       [&] { layer_norm(s, x, make({5}), make({5}), 1e-5F, y, mean, inv); }},
      {"layer_norm: gamma is bf16, expected fp32",
       [&] { layer_norm(s, x, gamma16, gamma, 1e-5F, y, mean, inv); }},
      {"layer_norm: beta has shape [3] (3 elements), expected 4",
       [&] { layer_norm(s, x, gamma, beta3, 1e-5F, y, mean, inv); }},
      {"layer_norm: inverse has shape [4] (4 elements), expected 3",
       [&] { layer_norm(s, x, gamma, gamma, 1e-5F, y, mean, inv4); }},
      {"layer_norm: inverse is fp16, expected fp32",
       [&] { layer_norm(s, x, gamma, gamma, 1e-5F, y, mean, inv16); }},
      {"add_layer_norm: residual is bf16, expected fp32",
       [&] { add_layer_norm(s, x, x16, gamma, gamma, 1e-5F, sum, y, mean, inv); }},
      {"add_rms_norm: sum is undefined",
       [&] { add_rms_norm(s, x, x, gamma, 1e-5F, undefined, y, inv); }},
      {"rms_norm: y is undefined", [&] { rms_norm(s, x, gamma, 1e-5F, undefined, inv); }},
      {"layer_norm_backward: dy is bf16, expected fp32",
       [&] { layer_norm_backward(s, x, gamma, mean, inv, x16, none, y, grads); }},
      {"layer_norm_backward: dbeta is bf16, expected fp32",
       [&] { layer_norm_backward(s, x, gamma, mean, inv, x, none, y, mixed); }},
      {"layer_norm_backward: dbeta is undefined",
       [&] { layer_norm_backward(s, x, gamma, mean, inv, x, none, y, rms_only); }},
      {"layer_norm_backward: dgamma is undefined",
       [&] { layer_norm_backward(s, x, gamma, mean, inv, x, none, y, beta_only); }},
      {"rms_norm_backward: residual_grad has shape [4] (4 elements), expected 12",
       [&] { rms_norm_backward(s, x, gamma, inv, x, gamma, y, rms_only); }},
  });
}

TEST_CASE("the fused loss refuses operands that do not fit", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const LinearCrossEntropyArgs right{.x = make({3, 4}),
                                     .weight = make({7, 4}),
                                     .targets = make({3}, DType::kI32),
                                     .losses = make({3}),
                                     .dx = make({3, 4}),
                                     .dweight = make({7, 4})};
  CHECK_NOTHROW(linear_cross_entropy(s, right));
  const auto with = [&](const std::function<void(LinearCrossEntropyArgs&)>& change) {
    return [&, change] {
      LinearCrossEntropyArgs args = right;
      change(args);
      linear_cross_entropy(s, args);
    };
  };
  check_refused({
      {"bias has shape [6] (6 elements), expected 7 elements",
       with([&](auto& a) { a.bias = make({6}); })},
      {"dbias is given without a bias or without dx", with([&](auto& a) { a.dbias = make({7}); })},
      {"weight is not a matrix [V, C]", with([&](auto& a) { a.weight = make({28}); })},
      {"x has shape [2, 5], expected rows of 4 elements", with([&](auto& a) {
         a.x = make({2, 5});
       })},
      {"weight is bf16, expected fp32", with([&](auto& a) {
         a.weight = make({7, 4}, DType::kBF16);
       })},
      {"targets is fp32, expected int32", with([&](auto& a) { a.targets = make({3}); })},
      {"targets has shape [2]", with([&](auto& a) { a.targets = make({2}, DType::kI32); })},
      {"losses is bf16, expected fp32", with([&](auto& a) { a.losses = make({3}, DType::kBF16); })},
      {"dweight is given without dx", with([&](auto& a) { a.dx = {}; })},
      {"dx is fp16, expected fp32", with([&](auto& a) {
         a.dx = make({3, 4}, DType::kF16);
       })},
      {"dweight is bf16, expected fp32 or fp32", with([&](auto& a) {
         a.dweight = make({7, 4}, DType::kBF16);
       })},
  });
}

TEST_CASE("an Adam step refuses state of another kind, and corrections that are none",
          "[kernels][device]") {
  Maker make;
  Stream& s = make.stream;
  const AdamArgs right{.master = make({4}),
                       .grad = make({4}, DType::kBF16),
                       .exp_avg = make({4}),
                       .exp_avg_sq = make({4}),
                       .copy = make({4}, DType::kF16)};
  const StepScalars scalars = testing::scalars_of(s, {.lr = 1, .beta1 = 0.9, .beta2 = 0.999});
  CHECK_NOTHROW(adam_update(s, right, scalars));
  const auto with = [&](const std::function<void(AdamArgs&)>& change) {
    return [&, change] {
      AdamArgs args = right;
      change(args);
      adam_update(s, args, scalars);
    };
  };
  check_refused({
      {"master is bf16, expected fp32", with([&](auto& a) { a.master = make({4}, DType::kBF16); })},
      {"exp_avg is undefined", with([&](auto& a) { a.exp_avg = {}; })},
      {"exp_avg is fp16, expected fp32 or bf16",
       with([&](auto& a) { a.exp_avg = make({4}, DType::kF16); })},
      {"exp_avg_sq is fp32, expected bf16",
       with([&](auto& a) { a.exp_avg = make({4}, DType::kBF16); })},
      {"exp_avg_sq is fp16, expected fp32",
       with([&](auto& a) { a.exp_avg_sq = make({4}, DType::kF16); })},
      {"grad is int32, expected fp32, bf16 or fp16",
       with([&](auto& a) { a.grad = make({4}, DType::kI32); })},
      {"grad has shape [5]", with([&](auto& a) { a.grad = make({5}); })},
      {"copy has shape [3]", with([&](auto& a) { a.copy = make({3}, DType::kBF16); })},
  });
}

TEST_CASE("an update by a rule refuses state that it has not, and what does not fit",
          "[kernels][device]") {
  Maker make;
  Stream& s = make.stream;
  const StepScalars scalars = testing::scalars_of(s, {.lr = 1});
  const RuleArgs right{.master = make({4}), .grad = make({4}), .states = {{.values = make({4})}}};
  CHECK_NOTHROW(rule_update(s, right, LionRule{}, scalars));
  const auto with = [&](const std::function<void(RuleArgs&)>& change) {
    return [&, change] {
      RuleArgs args = right;
      change(args);
      rule_update(s, args, LionRule{}, scalars);
    };
  };
  check_refused({
      {"master is undefined", with([&](auto& a) { a.master = {}; })},
      {"master is int32, expected fp32, bf16 or fp16",
       with([&](auto& a) { a.master = make({4}, DType::kI32); })},
      {"masters in fp32 are to be rounded at random, expected bf16",
       with([&](auto& a) { a.noise = WeightNoise{}; })},
      {"masters in fp16 are to be rounded at random, expected bf16", with([&](auto& a) {
         a.master = make({4}, DType::kF16);
         a.noise = WeightNoise{};
       })},
      {"grad has shape [5]", with([&](auto& a) { a.grad = make({5}); })},
      {"grad is int32", with([&](auto& a) { a.grad = make({4}, DType::kI32); })},
      {"state is undefined", with([&](auto& a) { a.states[0].values = {}; })},
      {"state is bf16, expected fp32",
       with([&](auto& a) { a.states[0].values = make({4}, DType::kBF16); })},
      {"scales is undefined", with([&](auto& a) {
         a.states[0] = {.values = make({4}, DType::kU8), .format = MomentFormat::kMxFp8};
       })},
      {"state 0 in 8 bits is a root", with([&](auto& a) {
         a.states[0] = {.values = make({4}, DType::kU8),
                        .scales = make({1}, DType::kU8),
                        .format = MomentFormat::kMxFp8Root};
       })},
      {"state 1 is bf16, expected the dtype of all",
       [&] {
         RuleArgs args = right;
         args.states.push_back({.values = make({4}, DType::kBF16), .format = MomentFormat::kBf16});
         rule_update(s, args, AdamStateRule{}, scalars);
       }},
      {"state 0 is bf16, expected fp32",
       [&] {
         RuleArgs args = right;
         args.states.assign(2, {.values = make({4}, DType::kBF16), .format = MomentFormat::kBf16});
         rule_update(s, args, OneBitRule{}, scalars);
       }},
      {"copy is int32", with([&](auto& a) { a.copy = make({4}, DType::kI32); })},
      {"1 states are given to a rule that has 0",
       [&] { rule_update(s, right, SgdRule{}, scalars); }},
  });
}

TEST_CASE("the end of a step refuses sums that are not of ranks", "[kernels][device]") {
  Maker make;
  Stream& s = make.stream;
  const StepScalars scalars(1, s);
  check_refused({
      {"gathered is fp32, expected fp64", [&] { finish_step(s, make({8}), {}, scalars); }},
      {"gathered has 6 numbers, expected 8 of each rank",
       [&] { finish_step(s, make({6}, DType::kF64), {}, scalars); }},
      {"max_norm is -1, expected at least 0",
       [&] { finish_step(s, make({8}, DType::kF64), {.max_norm = -1}, scalars); }},
      {"a mean over a weight of -2, expected at least 0",
       [&] { finish_step(s, make({8}, DType::kF64), {.planned_weight = -2}, scalars); }},
      {"step scalars: a group of 0 ranks", [&] { static_cast<void>(StepScalars(0, s)); }},
  });
}

TEST_CASE("views and products refuse what leaves a tensor", "[kernels]") {
  Maker make;
  Stream& s = make.stream;
  const Tensor a = make({3, 4}), b = make({4, 5}), c = make({3, 5});
  const MatmulArgs right{.a = matrix(a, 3, 4), .b = matrix(b, 4, 5), .c = matrix(c, 3, 5)};
  CHECK_NOTHROW(matmul(s, right));
  const auto with = [&](const std::function<void(MatmulArgs&)>& change) {
    return [&, change] {
      MatmulArgs args = right;
      change(args);
      matmul(s, args);
    };
  };
  check_refused({
      {"matrix: 3 x 5 of a tensor of shape [3, 4]", [&] { matrix(a, 3, 5); }},
      {"columns_of: columns [3, 5) of 4", [&] { columns_of(matrix(a, 3, 4), 3, 2); }},
      {"columns_of: columns [-1, 1) of 4", [&] { columns_of(matrix(a, 3, 4), -1, 2); }},
      {"matmul: a is undefined", with([](auto& m) { m.a.tensor = {}; })},
      {"matmul: b is 4 x 5 with row stride 4", with([](auto& m) { m.b.row_stride = 4; })},
      {"matmul: c ends at element 16 of a tensor of 15", with([](auto& m) { m.c.offset = 1; })},
      {"matmul: a ends at element", with([](auto& m) { m.a.offset = -1; })},
      {"matmul: op(a) is 3 x 4, op(b) is 5 x 4",
       with([](auto& m) { m.transpose_b = Transpose::kYes; })},
      {"matmul: c is 3 x 5, expected 3 x 4", with([&](auto& m) {
         m.b = matrix(make({4, 4}), 4, 4);
       })},
      {"matmul: the inner extent is 0", with([&](auto& m) {
         m.a = matrix(make({3, 0}), 3, 0);
         m.b = matrix(make({0, 5}), 0, 5);
       })},
      {"matmul: b is fp16, expected fp32", with([&](auto& m) {
         m.b = matrix(make({4, 5}, DType::kF16), 4, 5);
       })},
      {"matmul: bias has shape [4] (4 elements), expected 5",
       with([&](auto& m) { m.bias = make({4}); })},
      {"matmul: pre_activation is bf16, expected fp32", with([&](auto& m) {
         m.pre_activation = make({3, 5}, DType::kBF16);
       })},
      {"an accumulating product takes no bias", with([&](auto& m) {
         m.write = Write::kAccumulate;
         m.bias = make({5});
       })},
  });
}

}  // namespace
}  // namespace ds::kernels
