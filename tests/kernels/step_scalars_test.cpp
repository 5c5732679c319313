// The scalars of a step: what ranks summed up, and what follows from it.
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "core/cuda/memory.h"
#include "kernels/step/scalars.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The first `given` sums of each rank; the others are 0.
void put_first(const Values& of_ranks, size_t given, const Tensor& to, Stream& stream) {
  Values all;
  for (size_t at = 0; at < of_ranks.size(); at += given) {
    const auto first = of_ranks.begin() + static_cast<std::ptrdiff_t>(at);
    all.insert(all.end(), first, first + static_cast<std::ptrdiff_t>(given));
    all.resize(all.size() + static_cast<size_t>(kStepSums) - given);
  }
  REQUIRE(all.size() * sizeof(double) == to.bytes());
  stream.copy(all.data(), to.address(), to.bytes());
}
// Loss, squares, flags and weights of each rank, or no weights, where nobody weighs losses.
void put(const Values& of_ranks, const Tensor& to, Stream& stream) {
  put_first(of_ranks, 4, to, stream);
}
void put_unweighed(const Values& of_ranks, const Tensor& to, Stream& stream) {
  put_first(of_ranks, 3, to, stream);
}

StepOutcome finished(const Values& of_ranks, const FinishRule& rule) {
  TestStream s;
  const auto ranks = static_cast<int>(of_ranks.size()) / 4;
  const StepScalars scalars(ranks, s.stream);
  put(of_ranks, scalars.gathered(), s.stream);
  finish_step(s.stream, scalars.gathered(), rule, scalars);
  return scalars.read_back();
}
StepOutcome finished(const Values& of_ranks, double max_norm) {
  TestStream s;
  const StepScalars scalars(static_cast<int>(of_ranks.size()) / 3, s.stream);
  put_unweighed(of_ranks, scalars.gathered(), s.stream);
  finish_step(s.stream, scalars.gathered(), {.max_norm = max_norm}, scalars);
  return scalars.read_back();
}

TEST_CASE("sums are added in the order of ranks, flags are the largest", "[kernels][device]") {
  // In any other order the small numbers are not lost.
  const StepOutcome out = finished({1e16, 16, 2, 3, 1, 9, 7, 4, 1, 0, 5, 5}, FinishRule{});
  CHECK(out.sums.loss == (1e16 + 1) + 1);
  CHECK(out.sums.squares == 25);
  CHECK(out.sums.flags == 7);
  CHECK(out.sums.weights == 12);
  CHECK(out.norm == 5);
  CHECK(out.grad_scale == 1.0F);
  CHECK(out.loss_scale == 1);
  CHECK(out.skip == 0);
}

TEST_CASE("parts of a loss are summed as it is, and are means over the same weight",
          "[kernels][device]") {
  TestStream s;
  const StepScalars scalars(2, s.stream);
  const Values of_ranks{4, 1, 0, 3, 1, 2, 0.5, 0, 6, 1, 0, 1, 2, 4, 0.25, 8};
  put_first(of_ranks, 8, scalars.gathered(), s.stream);
  finish_step(s.stream, scalars.gathered(), {.planned_weight = 8}, scalars);
  const StepOutcome out = scalars.read_back();
  CHECK(out.sums.loss == 20);
  CHECK(out.sums.parts[0] == 6);
  CHECK(out.sums.parts[1] == 12);
  CHECK(out.sums.parts[2] == 1.5);
  CHECK(out.sums.parts[3] == 16);
  CHECK(scalars.loss_part(2).address() == scalars.sums().narrow(6, 1).address());
}

TEST_CASE("a step of many ranks is finished in their order", "[kernels][device]") {
  for (const size_t ranks : {31, 32, 33, 257, 1000}) {
    Values of_ranks;
    StepSums expected;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const double loss = 1.0 / static_cast<double>(rank + 3);
      const auto flags = static_cast<double>(rank * 7 % ranks);
      of_ranks.insert(of_ranks.end(), {loss, loss * loss, flags});
      expected.loss += loss;
      expected.squares += loss * loss;
      expected.flags = std::max(expected.flags, flags);
    }
    INFO("ranks " << ranks);
    const StepOutcome out = finished(of_ranks, 0.5);
    CHECK(out.sums.loss == expected.loss);
    CHECK(out.sums.squares == expected.squares);
    CHECK(out.sums.flags == expected.flags);
    CHECK(out.norm == std::sqrt(expected.squares));
    CHECK(out.grad_scale == clip_factor(out.norm, 0.5));
  }
}

TEST_CASE("loss and gradients are means over the weight that a batch has", "[kernels][device]") {
  const Values of_ranks{0.5, 9, 0, 2, 0.25, 16, 0, 1};
  const StepOutcome out = finished(of_ranks, {.gradient_factor = 2, .planned_weight = 12});
  CHECK(out.sums.loss == 3);      // 0.75 was made over 12, and there were 3
  CHECK(out.norm == 10);          // 5 / 2, likewise
  CHECK(out.grad_scale == 2.0F);  // 4 / 2
  const StepOutcome clipped = finished(of_ranks, {.max_norm = 5, .planned_weight = 12});
  CHECK(clipped.norm == 20);
  CHECK(clipped.grad_scale == 4.0F * clip_factor(20, 5));
  // All of it is there: the bits are those of a batch that nobody weighs.
  const Values even{0.1, 3, 0, 7, 0.2, 5, 0, 5};
  const StepOutcome planned = finished(even, {.max_norm = 1, .planned_weight = 12});
  const StepOutcome unweighed = finished(even, FinishRule{.max_norm = 1});
  CHECK(planned.sums.loss == unweighed.sums.loss);
  CHECK(planned.norm == unweighed.norm);
  CHECK(planned.grad_scale == unweighed.grad_scale);
  // A batch without any weight has neither loss nor gradients, and its step is a step.
  const StepOutcome nothing = finished({0, 0, 0, 0}, {.max_norm = 1, .planned_weight = 12});
  CHECK(nothing.sums.loss == 0);
  CHECK(nothing.norm == 0);
  CHECK(nothing.skip == 0);
  CHECK(nothing.updates == 1);
}

TEST_CASE("a long gradient is clipped, others are not", "[kernels][device]") {
  CHECK(clip_factor(2, 0) == 1.0F);
  CHECK(clip_factor(0.5, 1) == 1.0F);
  CHECK(clip_factor(4, 1) == Approx(0.25F).epsilon(1e-5));
  CHECK(finished({1, 16, 0}, 1).grad_scale == clip_factor(4, 1));
  CHECK(finished({1, 16, 0}, 5).grad_scale == 1.0F);
}

TEST_CASE("the update is skipped where loss or norm is not finite on any rank",
          "[kernels][device]") {
  for (const double bad : {std::nan(""), kInfinity}) {
    CHECK(finished({1, 1, 0, bad, 1, 0}, 1).skip == 1);
    CHECK(finished({1, bad, 0, 1, 1, 0}, 1).skip == 1);
  }
  CHECK(finished({1e308, 1, 0, 1e308, 1, 0}, 1).skip == 1);
  CHECK(finished({1, 1, 0, 1, 1, 0}, 1).skip == 0);
}

TEST_CASE("updates are skipped from a bad step on until the host clears it", "[kernels][device]") {
  TestStream s;
  StepScalars scalars(1, s.stream);
  const auto finish = [&](double loss) {
    put_unweighed({loss, 4, 0}, scalars.gathered(), s.stream);
    finish_step(s.stream, scalars.gathered(), {}, scalars);
    return scalars.read_back();
  };
  CHECK(finish(1).skip == 0);
  CHECK(finish(kInfinity).skip == 1);
  const StepOutcome after = finish(2);
  CHECK(after.skip == 1);
  CHECK(after.sums.loss == 2);
  scalars.clear_skip();
  CHECK(scalars.read_back().skip == 0);
  CHECK(scalars.read_back().norm == after.norm);
  CHECK(finish(3).skip == 0);
}

LossScaleRule dynamic_rule(const DynamicScaleOptions& options) {
  return {.kind = LossScaling::kDynamic, .options = options};
}

// The conformance vectors of the scaler go through finish_step(): x = overflow, . = clean.
TEST_CASE("the loss scale follows overflows as the rule says, and only good steps count",
          "[kernels][device]") {
  TestStream s;
  const FinishRule rule{.loss_scale = dynamic_rule({.init_scale = 256, .window = 2})};
  StepScalars scalars(2, s.stream);
  LossScaleState expected = first_state(rule.loss_scale);
  scalars.write({.updates = 40, .scaler = expected});
  int64_t updates = 40;
  std::vector<double> scales;
  for (const char step : std::string_view("xx..x.......")) {
    CAPTURE(scales.size());
    const bool overflows = step == 'x';
    const double bad = scales.size() % 2 == 0 ? kInfinity : std::nan("");
    put_unweighed({1, 9, 0, 1, overflows ? bad : 16, 0}, scalars.gathered(), s.stream);
    finish_step(s.stream, scalars.gathered(), rule, scalars);
    const StepOutcome out = scalars.read_back();
    CHECK(out.loss_scale == expected.scale);
    CHECK(out.is_skipped(Skip::kOverflow) == overflows);
    CHECK((out.skip != 0) == overflows);
    if (!overflows) {
      CHECK(out.norm == 5 / expected.scale);
      CHECK(out.grad_scale == static_cast<float>(1 / expected.scale));
    }
    updates += overflows ? 0 : 1;
    CHECK(out.updates == updates);
    expected = after_update(expected, rule.loss_scale.options,
                            overflows ? GradientHealth::kOverflowed : GradientHealth::kFinite);
    CHECK(out.scaler == expected);
    scales.push_back(out.scaler.scale);
  }
  CHECK(scales == std::vector<double>{256, 128, 128, 128, 64, 64, 64, 128, 128, 256, 256, 512});
}

TEST_CASE("an overflow at the smallest scale stays until the host clears it", "[kernels][device]") {
  TestStream s;
  const FinishRule rule{.loss_scale = dynamic_rule({.init_scale = 1, .hysteresis = 1})};
  StepScalars scalars(1, s.stream);
  scalars.write({.updates = 3, .scaler = first_state(rule.loss_scale)});
  const auto finish = [&](double squares) {
    put_unweighed({1, squares, 0}, scalars.gathered(), s.stream);
    finish_step(s.stream, scalars.gathered(), rule, scalars);
    return scalars.read_back();
  };
  const StepOutcome bad = finish(kInfinity);
  CHECK(bad.is_skipped(Skip::kExhausted));
  CHECK(bad.scaler == first_state(rule.loss_scale));
  const StepOutcome after = finish(4);
  CHECK(after.is_skipped(Skip::kExhausted));
  CHECK(after.updates == 3);
  CHECK(after.scaler == bad.scaler);
  scalars.clear_skip();
  CHECK(finish(4).updates == 4);
}

// Each letter is a step: x overflows, . does not. What became of them: s skipped, u updated, E the
// end.
std::string made_of(std::string_view steps, const LossScaleRule& scale) {
  TestStream s;
  StepScalars scalars(1, s.stream);
  scalars.write({.scaler = first_state(scale)});
  std::string out;
  for (const char step : steps) {
    put_unweighed({1, step == 'x' ? kInfinity : 4, 0}, scalars.gathered(), s.stream);
    finish_step(s.stream, scalars.gathered(), {.loss_scale = scale}, scalars);
    const StepOutcome is = scalars.read_back();
    out += is.is_skipped(Skip::kExhausted) ? 'E' : is.is_skipped(Skip::kOverflow) ? 's' : 'u';
  }
  return out;
}

TEST_CASE("three overflows in a row at a scale that has no way down end training",
          "[kernels][device]") {
  const LossScaleRule fixed{.kind = LossScaling::kFixed, .options = {.init_scale = 8}};
  CHECK(made_of("xxx", fixed) == "ssE");
  CHECK(made_of("xx.xx.x.xx.", fixed) == "ssussusussu");
  CHECK(made_of(".xxx.", fixed) == "ussEE");
  LossScaleRule staying = dynamic_rule({.init_scale = 8, .min_scale = 2, .hysteresis = 1});
  CHECK(made_of("xxx", staying) == "ssE");  // DeepSpeed's with ZeRO
  staying.options.at_minimum = AtMinimumScale::kStay;
  CHECK(made_of("xxxxx", staying) == "ssssE");  // 8, 4, then three times 2
  CHECK(made_of("xxxx.xx.xxx", staying) == "ssssussussE");
}

TEST_CASE("a loss that is not finite ends training by any scale", "[kernels][device]") {
  for (const LossScaling kind : {LossScaling::kNone, LossScaling::kFixed, LossScaling::kDynamic}) {
    for (const double loss : {kInfinity, std::nan("")}) {
      TestStream s;
      StepScalars scalars(1, s.stream);
      const FinishRule rule{.loss_scale = {.kind = kind, .options = {.init_scale = 1024}}};
      scalars.write({.scaler = first_state(rule.loss_scale)});
      put_unweighed({loss, 4, 0}, scalars.gathered(), s.stream);
      finish_step(s.stream, scalars.gathered(), rule, scalars);
      const StepOutcome out = scalars.read_back();
      CHECK(out.is_skipped(Skip::kBad));
      CHECK(out.updates == 0);
      CHECK(out.scaler == first_state(rule.loss_scale));
    }
  }
}

TEST_CASE("an update by a factor that is not finite is none", "[kernels][device]") {
  TestStream s;
  StepScalars scalars(1, s.stream);
  const LossScaleRule tiny{.kind = LossScaling::kFixed, .options = {.init_scale = 1e-39}};
  scalars.write({.scaler = first_state(tiny)});
  put_unweighed({1, 1e-80, 0}, scalars.gathered(), s.stream);
  finish_step(s.stream, scalars.gathered(), {.loss_scale = tiny}, scalars);
  CHECK(scalars.read_back().skip != 0);
}

TEST_CASE("a scale that stays skips steps and does not move", "[kernels][device]") {
  TestStream s;
  const FinishRule rule{.max_norm = 1,
                        .loss_scale = {.kind = LossScaling::kFixed, .options = {.init_scale = 8}},
                        .gradient_factor = 2};
  StepScalars scalars(1, s.stream);
  scalars.write({.scaler = first_state(rule.loss_scale)});
  for (const double squares : {kInfinity, 1024.0}) {
    put_unweighed({1, squares, 0}, scalars.gathered(), s.stream);
    finish_step(s.stream, scalars.gathered(), rule, scalars);
  }
  const StepOutcome out = scalars.read_back();
  CHECK(out.skip == 0);
  CHECK(out.updates == 1);
  CHECK(out.scaler.scale == 8);
  CHECK(out.norm == 2);  // 32 / (8 * 2)
  CHECK(out.grad_scale == Approx(0.5 / 16));
}

TEST_CASE("an evaluation leaves scale and count of updates alone", "[kernels][device]") {
  TestStream s;
  StepScalars scalars(1, s.stream);
  scalars.write({.updates = 7, .scaler = {.scale = 32, .iteration = 9}});
  put_unweighed({kInfinity, 0, 0}, scalars.gathered(), s.stream);
  finish_step(s.stream, scalars.gathered(), {.loss_scale = dynamic_rule({}), .is_update = false},
              scalars);
  CHECK(scalars.read_back().updates == 7);
  CHECK(scalars.read_back().scaler == LossScaleState{.scale = 32, .iteration = 9});
}

TEST_CASE("an update has the inputs of its number, whether the step before it was skipped or not",
          "[kernels][device]") {
  TestStream s;
  const FinishRule rule{.loss_scale = dynamic_rule({.init_scale = 2})};
  for (const bool overflows : {false, true}) {
    CAPTURE(overflows);
    StepScalars scalars(1, s.stream);
    scalars.write({.updates = 4, .scaler = first_state(rule.loss_scale)});
    const auto step = [&](double squares, const StepInputs& inputs, const StepInputs& after_skip) {
      scalars.upload(inputs, 0, after_skip);
      put_unweighed({1, squares, 0}, scalars.gathered(), s.stream);
      finish_step(s.stream, scalars.gathered(), rule, scalars);
    };
    step(overflows ? kInfinity : 4, {.lr = 0.5, .step = 5}, {.step = 0});
    step(4, {.lr = 0.25, .step = 6}, {.lr = 0.5, .step = 5});
    StepInputs inputs;
    s.stream.copy(&scalars.inputs(), &inputs, sizeof inputs);
    s.stream.synchronize();
    CHECK(inputs.step == (overflows ? 5 : 6));
    CHECK(inputs.lr == (overflows ? 0.5 : 0.25));
    CHECK(scalars.read_back().updates == inputs.step);
  }
}

TEST_CASE("a copy of the outcome stays as it is when the next step is finished",
          "[kernels][device]") {
  TestStream s;
  StepScalars scalars(1, s.stream);
  scalars.write({.sums = {}, .norm = 7, .grad_scale = 0.5F});
  StepOutcome copy;
  const Event copied = scalars.copy_outcome(copy);
  scalars.write({.sums = {}, .norm = 8});
  copied.wait_on_host();
  CHECK(copied.ready());
  CHECK(copy.norm == 7);
  CHECK(copy.grad_scale == 0.5F);
}

TEST_CASE("each step finds its own inputs, however many were uploaded before it ran",
          "[kernels][device]") {
  TestStream s;
  HostMemory host;
  const bool is_cpu = s.stream.device() == Device::cpu();
  const auto pinned = is_cpu ? nullptr : make_pinned_memory(4096);
  StepScalars scalars(1, s.stream, is_cpu ? &host : pinned.get());
  constexpr int64_t kSteps = 9;  // the places on the host are taken several times
  const Tensor seen = Tensor::empty({kSteps}, DType::kF64, s.stream);
  for (int64_t step = 0; step < kSteps; ++step) {
    scalars.upload({.lr = 0.25 * static_cast<double>(step)}, step);
    s.stream.copy(&scalars.inputs().lr, seen.narrow(step, 1).address(), sizeof(double));
  }
  Values rates(kSteps);
  s.stream.copy(seen.address(), rates.data(), seen.bytes());
  s.stream.synchronize();
  for (size_t step = 0; step < kSteps; ++step) {
    CHECK(rates[step] == 0.25 * static_cast<double>(step));
  }
}

TEST_CASE("an upload begins the sums anew and keeps the last outcome", "[kernels][device]") {
  TestStream s;
  StepScalars scalars(2, s.stream);
  CHECK(scalars.read_back().grad_scale == 1.0F);
  const double loss = 5, squares = 6;
  s.stream.copy(&loss, scalars.loss().address(), sizeof(loss));
  s.stream.copy(&squares, scalars.squares().address(), sizeof(squares));
  scalars.write({.sums = {}, .norm = 7, .skip = 1});
  scalars.upload({.lr = 0.5, .step = 9}, 3);
  Values sums(static_cast<size_t>(kStepSums));
  StepInputs inputs;
  s.stream.copy(scalars.sums().address(), sums.data(), scalars.sums().bytes());
  s.stream.copy(&scalars.inputs(), &inputs, sizeof inputs);
  s.stream.synchronize();
  CHECK(sums == Values{0, 0, 3, 0, 0, 0, 0, 0});
  CHECK(inputs.lr == 0.5);
  CHECK(inputs.step == 9);
  CHECK(scalars.read_back().norm == 7);
  CHECK(scalars.read_back().skip == 1);
  CHECK(scalars.gathered().numel() == 2 * kStepSums);
}

}  // namespace
}  // namespace ds::kernels
