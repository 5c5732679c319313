// Kernels on the meta device: they check and report exactly as on the CPU, allocate the same
// scratch in the same order, and touch no bytes.
#include <string>
#include <vector>

#include "core/device/trace.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_part.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/scaling.h"
#include "kernels/embedding/embedding.h"
#include "kernels/front/cuda_halves.h"
#include "kernels/matmul/matmul.h"
#include "kernels/moe/capacity.h"
#include "kernels/moe/expert_order.h"
#include "kernels/moe/expert_rows.h"
#include "kernels/moe/grouped_matmul.h"
#include "kernels/moe/route.h"
#include "kernels/moe/router_loss.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/optimizer/rule_update.h"
#include "kernels/optimizer/update.h"
#include "kernels/preference/preference.h"
#include "kernels/pruning/pruning.h"
#include "kernels/quantize/quantize.h"
#include "kernels/quantize/signs.h"
#include "kernels/reduce/dots.h"
#include "kernels/reduce/reduce.h"
#include "kernels/rotary/rope.h"
#include "kernels/softmax/distillation.h"
#include "kernels/softmax/softmax.h"
#include "kernels/value_loss/hidden_loss.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

struct Recorder final : Trace {
  void on_op(std::string_view name, const OpCost& cost) override {
    log.push_back(fmt::format("{} {} {}", name, cost.flops, cost.bytes));
  }
  std::vector<std::string> log;
};

// Notes every request of a resource that does the work.
struct NotingMemory final : MemoryResource {
  explicit NotingMemory(MemoryResource& to, std::vector<std::string>& into)
      : upstream(to), log(into) {}
  void* allocate(size_t bytes, MemoryTag tag) override {
    log.push_back(fmt::format("allocate {} {}", bytes, name_of(tag)));
    return upstream.allocate(bytes, tag);
  }
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
    upstream.deallocate(pointer, bytes, tag);
  }
  MemoryResource& upstream;
  std::vector<std::string>& log;
};

// All forms of x, which has 160 elements.
void run_quantizers(Stream& s, const Tensor& x) {
  const auto made = [&](int64_t numel, DType of) { return Tensor::zeros({numel}, of, s); };
  Tensor y = made(160, x.dtype()), mask = made(160, DType::kU8);
  fake_quantize(s, x, {.groups = 2}, y);
  fake_quantize(s, x, {.scheme = QuantScheme::kTernary}, y);
  const GroupQuant groups{.rows = 10, .columns = 16, .group_size = 8};
  const GroupCodes levels{made(160, DType::kU8), made(20, DType::kF32), made(20, DType::kF32)};
  quantize_groups(s, x, groups, levels);
  dequantize_groups(s, levels, groups, y);
  const IntQuant ints{.group_size = 16};
  const IntCodes codes{.q = made(160, DType::kI8), .scale = made(10, DType::kF32)};
  quantize_int(s, x, ints, codes);
  dequantize_int(s, codes, ints, y);
  const IntCodes sum{.q = made(80, DType::kI8), .scale = made(5, DType::kF32)};
  sum_codes(s,
            {.from = codes, .from_how = ints, .ranks = 2, .numel = 80, .to = sum, .to_how = ints});
  const Tensor error = made(160, DType::kF32), signs = made(20, DType::kU8);
  Tensor wide = error;
  compress_signs(s, {x, error, signs, made(1, DType::kF32)});
  expand_signs(s, signs, made(1, DType::kF32), y);
  add_signs(s, signs, made(1, DType::kF32), wide);
  largest_mask(s, x, 0.5, mask);
}

// Magnitudes of the rows of x [10, 16], and their gradients.
void run_magnitudes(Stream& s, const Tensor& x) {
  const MatrixView whole = matrix(x, 10, 16);
  const MatrixView some = columns_of(whole, 3, 10);
  Tensor norms = Tensor::zeros({10}, DType::kF32, s), factors = norms;
  row_dots(s, whole, whole, Write::kOverwrite, norms);
  over_roots(s, norms, norms, factors);
  scale_columns(s, some, factors, {}, some);
  scale_columns(s, some, {}, factors, some);
  column_dots(s, some, columns_of(whole, 4, 10), Write::kAccumulate, norms);
}

// Attention as ranks of a ring have it, of qkv [10, 32].
void run_parts(Stream& s, const AttentionShape& shape, const Tensor& qkv) {
  const auto made = [&](const Shape& of) { return Tensor::zeros(of, DType::kF32, s); };
  const SequencePart all{.length = 5, .first = 0, .count = 5};
  const AttentionPart part{
      .batch = 2, .heads = 2, .kv_heads = 1, .head_dim = 8, .queries = all, .keys = all};
  const Tensor kv = Tensor::zeros({10, 16}, qkv.dtype(), s);
  const Tensor dy = Tensor::zeros({10, 16}, qkv.dtype(), s);
  Tensor y = made({10, 16}), lse = made({2, 2, 5}), delta = made({2, 2, 5}), dq = made({10, 16}),
         dkv = made({10, 16});
  attention_part_forward(s, part, qkv, kv, y, lse, Write::kOverwrite);
  Tensor rounded = Tensor::zeros({10, 16}, qkv.dtype(), s);
  attention_delta(s, shape, rounded, dy, delta);
  attention_part_backward(s, part, qkv, kv, {lse, delta, dy, dq, dkv});
}

// The sums and the loss of two samples.
void run_preferences(Stream& s) {
  const auto made = [&](const Shape& of, DType dtype) { return Tensor::zeros(of, dtype, s); };
  const Tensor targets = made({10}, DType::kI32), sums = made({2, 6}, DType::kF64);
  preference_sums(
      s, {.losses = made({10}, DType::kF32), .targets = targets, .sides = targets, .sums = sums});
  preference_loss(s, {.sums = sums,
                      .reference = made({2, 2}, DType::kF64),
                      .targets = targets,
                      .sides = targets,
                      .losses = made({2}, DType::kF32),
                      .figures = made({4, 2}, DType::kF32),
                      .row_weights = made({10}, DType::kF32)});
}

// A student's hidden states x [10, 16] and its vocabulary of 40 words, beside those of a teacher.
void run_distillation(Stream& s, const Tensor& x, const Tensor& table) {
  const auto made = [&](const Shape& of, DType dtype) { return Tensor::zeros(of, dtype, s); };
  const Tensor targets = made({10}, DType::kI32), losses = made({10}, DType::kF32);
  const TeacherHead teacher{.x = made({10, 24}, DType::kBF16),
                            .weight = made({30, 24}, DType::kBF16),
                            .softcap = 30,
                            .divergences = losses};
  linear_cross_entropy(s, {.x = x,
                           .weight = table,
                           .targets = targets,
                           .losses = losses,
                           .dx = made({10, 16}, x.dtype()),
                           .teacher = &teacher});
  const DistilledCrossEntropyArgs part{
      .student = {.logits = matrix(made({10, 20}, x.dtype()), 10, 20),
                  .targets = targets,
                  .losses = losses,
                  .gradients = x.dtype()},
      .teacher = matrix(made({10, 20}, DType::kF32), 10, 20)};
  Tensor numbers = made({10, kNumbersOfDistilledPart}, DType::kF32);
  distillation_part(s, part, {.first = 0, .vocabulary = 20}, numbers);
  distilled_cross_entropy_of_parts(s, part, {.first = 0, .vocabulary = 20}, numbers);
  hidden_loss(s, {.student = x,
                  .teacher = made({10, 16}, DType::kF32),
                  .targets = targets,
                  .losses = losses,
                  .dstudent = made({10, 16}, x.dtype())});
}

// The choices of 10 tokens among 4 experts.
ExpertOrder run_routing(Stream& s) {
  const auto made = [&](const Shape& of, DType dtype) { return Tensor::zeros(of, dtype, s); };
  const RouteRule rule{.experts = 4, .choices = 2};
  const Tensor logits = made({10, 4}, DType::kF32), scores = made({10, 4}, DType::kF32);
  const Tensor experts = made({20}, DType::kI32);
  Tensor weights = made({20}, DType::kF32), slopes = made({10, 4}, DType::kF32);
  route(s,
        {.rule = rule, .logits = logits, .experts = experts, .weights = weights, .scores = scores});
  ExpertOrder order{.counts = made({4}, DType::kI32),
                    .offsets = made({5}, DType::kI32),
                    .order = made({20}, DType::kI32),
                    .place = made({20}, DType::kI32)};
  sort_by_expert(s, experts, 2, ChoiceOrder::kByToken, order);
  count_choices(s, experts, {.choices = 2, .counted = 1}, order.counts);
  drop_over_capacity(
      s, {.offsets = order.offsets, .order = order.order, .capacity = 3, .experts = experts});
  route_weights(s, rule, scores, experts, weights);
  Tensor loss = made({1}, DType::kF64);
  balance_loss(s, {.scores = scores, .counts = order.counts}, loss);
  balance_loss_backward(s, {.scores = scores, .counts = order.counts}, {}, slopes);
  z_loss(s, logits, 4, loss);
  z_loss_backward(s, logits, 4, {.write = Write::kAccumulate}, slopes);
  route_backward(s, {.rule = rule,
                     .scores = scores,
                     .experts = experts,
                     .dweights = weights,
                     .dscores = slopes,
                     .dlogits = slopes});
  sort_by_expert(s, experts, 2, ChoiceOrder::kByChoice, order);
  return order;
}

// What experts do to the rows of x [10, 16].
void run_experts(Stream& s, const Tensor& x) {
  const auto made = [&](const Shape& of, DType dtype) { return Tensor::zeros(of, dtype, s); };
  const ExpertOrder order = run_routing(s);
  const RowsOfTokens shape{.choices = 2, .columns = 16};
  const Tensor rows = made({20, 16}, x.dtype()), out = made({20, 24}, x.dtype());
  const Tensor weights = made({4, 16, 24}, x.dtype()), sums = made({4, 16, 24}, DType::kF32);
  gather_expert_rows(s, {.shape = shape, .x = x, .order = order.order, .rows = rows});
  grouped_matmul(
      s, {.rows = rows, .weights = weights, .offsets = order.offsets, .depth = 16, .out = out});
  grouped_matmul_weights(s, {.a = rows,
                             .b = out,
                             .offsets = order.offsets,
                             .out = sums,
                             .a_columns = 16,
                             .b_columns = 24});
  const RowsBack back{.shape = shape,
                      .rows = rows,
                      .place = order.place,
                      .weights = made({20}, DType::kF32),
                      .y = x};
  return_expert_rows(s, back);
  expert_row_dots(s, back);
}

// One pass over everything a layer of a model calls.
void run_everything(Stream& s, DType dtype) {
  const auto made = [&](const Shape& shape, DType of) { return Tensor::zeros(shape, of, s); };
  const AttentionShape shape{2, 5, 2, 1, 8};
  const Tensor tokens = made({10}, DType::kI32), table = made({40, 16}, dtype);
  const Tensor gamma = made({16}, dtype), w = made({16, 32}, dtype);
  Tensor x = made({10, 16}, dtype), y = made({10, 16}, dtype), qkv = made({10, 32}, dtype);
  Tensor mean = made({10}, DType::kF32), inv = made({10}, DType::kF32),
         dqkv = made({10, 32}, dtype);
  Tensor lse = made({2, 2, 5}, DType::kF32), dtable = made({40, 16}, DType::kF32);
  LayerNormGrads grads{.dgamma = made({16}, DType::kF32), .dbeta = made({16}, DType::kF32)};
  embedding_forward(s, tokens, table, {}, 5, 0, x);
  layer_norm(s, x, gamma, gamma, 1e-5F, y, mean, inv);
  matmul(s, {.a = matrix(y, 10, 16),
             .b = matrix(w, 16, 32),
             .c = matrix(qkv, 10, 32),
             .activation = Activation::kGeluTanh});
  Tensor sums = made({32}, DType::kF32);
  matmul(s, {.a = matrix(y, 10, 16),
             .b = matrix(qkv, 10, 32),
             .c = matrix(w, 16, 32),
             .transpose_a = Transpose::kYes,
             .bias_gradient = sums,
             .write_bias_gradient = Write::kAccumulate});
  matmul(s, {.a = matrix(qkv, 10, 32),
             .b = matrix(w, 16, 32),
             .c = matrix(x, 10, 16),
             .transpose_b = Transpose::kYes,
             .activation_backward = Activation::kSilu,
             .activation_input = y});
  rope(s, shape, {.frequencies = {1, 0.1F, 0.01F, 0.001F}}, {}, Rotation::kForward, qkv);
  attention_forward(s, {shape}, qkv, y, lse);
  attention_backward(s, {shape}, qkv, y, lse, y, dqkv);
  run_parts(s, shape, qkv);
  linear_cross_entropy(
      s, {.x = y, .weight = table, .targets = tokens, .losses = mean, .dx = x, .dweight = dtable});
  layer_norm_backward(s, y, gamma, mean, inv, x, {}, x, grads);
  embedding_backward(s, made({2, 10}, DType::kI32), x, Write::kAccumulate, dtable);
  add(s, x, y, x);
  StepScalars scalars(2, s);
  sum_into(s, x, 2, Write::kAccumulate, scalars.loss());
  sum_of_squares_into(s, x, Write::kOverwrite, scalars.squares());
  finish_step(s, scalars.gathered(), {.max_norm = 1}, scalars);
  Tensor master = made({16}, DType::kF32), m = made({16}, DType::kF32), v = made({16}, DType::kF32);
  adam_update(s, {.master = master, .grad = gamma, .exp_avg = m, .exp_avg_sq = v}, scalars);
  rule_update(s, {.master = master, .grad = gamma, .states = {{.values = m}}}, LionRule{}, scalars);
  StepOutcome outcome;
  scalars.copy_outcome(outcome).wait_on_host();
  scalars.clear_skip();
  run_quantizers(s, x);
  run_magnitudes(s, x);
  run_preferences(s);
  run_distillation(s, x, table);
  run_experts(s, x);
}

}  // namespace

TEST_CASE("plans count what a teacher's logits cost", "[kernels]") {
  Recorder with, without;
  MetaMemory nothing;
  for (Recorder* to : {&with, &without}) {
    Stream meta({.device = Device::meta(), .memory = &nothing, .trace = to});
    const auto made = [&](const Shape& of, DType dtype) { return Tensor::empty(of, dtype, meta); };
    const TeacherHead teacher{.x = made({10, 24}, DType::kF32),
                              .weight = made({30, 24}, DType::kF32)};
    linear_cross_entropy(meta, {.x = made({10, 16}, DType::kF32),
                                .weight = made({40, 16}, DType::kF32),
                                .targets = made({10}, DType::kI32),
                                .losses = made({10}, DType::kF32),
                                .teacher = to == &with ? &teacher : nullptr});
  }
  REQUIRE(without.log.size() == 2);
  REQUIRE(with.log.size() == 3);
  CHECK(with.log[0] == without.log[0]);
  CHECK(with.log[1].starts_with(fmt::format("matmul {}", 2.0 * 10 * 30 * 24)));
  CHECK(with.log[2] == fmt::format("distilled_cross_entropy {} {}", 40.0 * 10 * (40 + 30),
                                   4.0 * 10 * (3 * 40 + 2 * 30)));
}

TEST_CASE("kernels on meta report and allocate exactly what they do on the CPU", "[kernels]") {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Recorder on_cpu, on_meta;
    HostMemory host;
    NotingMemory noted_host(host, on_cpu.log);
    ThreadPool pool(2);
    Stream cpu({.device = Device::cpu(), .memory = &noted_host, .pool = &pool, .trace = &on_cpu});
    run_everything(cpu, dtype);
    MetaMemory nothing;
    NotingMemory noted_meta(nothing, on_meta.log);
    Stream meta({.device = Device::meta(), .memory = &noted_meta, .trace = &on_meta});
    run_everything(meta, dtype);
    REQUIRE(on_cpu.log == on_meta.log);
    REQUIRE(on_cpu.log.size() > 30);
  }
}

TEST_CASE("kernels on meta that stands for a device report and allocate as they do on that",
          "[kernels][device]") {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    reference::TestStream device;  // whose memory outlives the stream below
    Recorder on_device, on_meta;
    NotingMemory noted(*device.memory, on_device.log);
    Stream stream({.device = device.stream.device(),
                   .memory = &noted,
                   .pool = &device.pool,
                   .trace = &on_device});
    run_everything(stream, dtype);
    stream.synchronize();
    MetaMemory nothing;
    NotingMemory noted_meta(nothing, on_meta.log);
    Stream meta({.device = Device::meta(),
                 .memory = &noted_meta,
                 .trace = &on_meta,
                 .stands_for = device.stream.device()});
    run_everything(meta, dtype);
    REQUIRE(on_device.log == on_meta.log);
  }
}

// Also where there is no GPU: what launches kernels is the host's, and nvcc gives functions of
// devices that it calls a body that ends the program.
TEST_CASE("kernels on meta that stands for a GPU are launched by code of the host", "[kernels]") {
  if (!kernels::has_cuda_halves()) {
    SUCCEED("a build without CUDA");
    return;
  }
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    MetaMemory nothing;
    Recorder on_meta;
    Stream meta({.device = Device::meta(),
                 .memory = &nothing,
                 .trace = &on_meta,
                 .stands_for = Device::cuda(0)});
    run_everything(meta, dtype);
    REQUIRE(on_meta.log.size() > 30);
  }
}

TEST_CASE("kernels on meta refuse wrong shapes and foreign devices", "[kernels]") {
  MetaMemory nothing;
  Stream meta({.device = Device::meta(), .memory = &nothing});
  const Tensor a = Tensor::empty({3}, DType::kF32, meta);
  Tensor y = Tensor::empty({4}, DType::kF32, meta);
  REQUIRE_THROWS_WITH(add(meta, a, a, y), Catch::Contains("expected 4 elements"));
  HostMemory host;
  ThreadPool pool(1);
  Stream cpu({.memory = &host, .pool = &pool});
  const Tensor b = Tensor::zeros({4}, DType::kF32, cpu);
  REQUIRE_THROWS_WITH(add(meta, b, b, y), Catch::Contains("add: a is on cpu, the stream on meta"));
}

}  // namespace ds::kernels
