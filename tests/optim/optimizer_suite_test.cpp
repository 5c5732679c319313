// The conformance suite of Optimizer: every family, in every dtype of gradients and copies. The
// numbers themselves are checked against their rules, DeepSpeed and PyTorch elsewhere; here is what
// ZeRO and the checkpoints rely on whatever the rule is.
#include <cmath>
#include <set>

#include "core/status/error.h"
#include "kernels/elementwise/elementwise.h"
#include "optim/optimizer.h"
#include "optim/rule_optimizer.h"
#include "tests/optim/rule_steps.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

namespace ds {
namespace {

using testing::floats_of;
using testing::random_tensor;
using testing::TestStream;
using Floats = std::vector<float>;

struct Family {
  std::string name;
  OptimizerConfig optimizer;
};

std::vector<Family> families() {
  using enum OptimizerType;
  return {{"adamw", {.adam = {.weight_decay = 0.1}}},
          {"adam", {.type = kAdam, .adam = {.weight_decay = 0.1, .adam_w_mode = false}}},
          {"adam without correction", {.adam = {.bias_correction = false}}},
          {"lion", {.type = kLion, .lion = {.weight_decay = 0.1}}},
          {"adagrad", {.type = kAdagrad, .adagrad = {.weight_decay = 0.1}}},
          {"sgd", {.type = kSgd, .sgd = {.weight_decay = 0.1}}},
          {"sgd with momentum", {.type = kSgd, .sgd = {.momentum = 0.9, .nesterov = true}}},
          {"rmsprop", {.type = kRmsprop, .rmsprop = {.weight_decay = 0.1}}},
          {"rmsprop with momentum, centered",
           {.type = kRmsprop, .rmsprop = {.eps = 1e-3, .momentum = 0.9, .centered = true}}},
          {"adamw with amsgrad", {.adam = {.weight_decay = 0.1, .amsgrad = true}}},
          {"adamw in bf16", {.adam = {.weight_decay = 0.1}, .moment_dtype = MomentType::kBf16}},
          {"lion in bf16", {.type = kLion, .moment_dtype = MomentType::kBf16}}};
}

struct Dtypes {
  DType grad = DType::kF32;
  std::optional<DType> copy;
};

std::vector<Dtypes> dtypes() {
  return {{DType::kF32, std::nullopt},
          {DType::kF32, DType::kBF16},
          {DType::kBF16, DType::kBF16},
          {DType::kF16, DType::kF16}};
}

// A shard of elements [first, first + numel) of one long parameter.
struct Piece {
  Shard shard;
  int64_t first = 0;

  Piece(const Optimizer& optimizer, const Dtypes& types, int64_t begin, int64_t numel,
        Stream& stream)
      : first(begin) {
    shard.master = random_tensor(stream, {begin + numel}, 1).narrow(begin, numel);
    shard.grad = Tensor::empty({numel}, types.grad, stream);
    if (types.copy) shard.copy = Tensor::zeros({numel}, *types.copy, stream);
    for (const SlotSpec& slot : optimizer.slots()) {
      shard.slots.push_back(Tensor::zeros({numel}, slot.dtype, stream));
    }
    shard.fields = {{.param = 0, .param_begin = begin, .numel = numel, .offset = 0}};
  }

  void draw_gradient(int64_t step, float times, Stream& stream) {
    const int64_t numel = shard.master.numel();
    const Tensor grad =
        random_tensor(stream, {first + numel}, 100 + static_cast<uint64_t>(step), times);
    kernels::cast(stream, grad.narrow(first, numel), shard.grad);
  }
  void step(const Optimizer& optimizer, int64_t step, const Hyper& hyper, float times,
            Stream& stream, const testing::Verdict& verdict = {}) {
    draw_gradient(step, times, stream);
    testing::step_shard(optimizer, shard, hyper, step, stream, verdict);
  }

  // Weights, slots and copy, one after the other.
  std::vector<Floats> state() const {
    std::vector<Floats> out{floats_of(shard.master)};
    for (const Tensor& slot : shard.slots) out.push_back(floats_of(slot));
    if (shard.copy.defined()) out.push_back(floats_of(shard.copy));
    return out;
  }
};

std::vector<Floats> joined(std::vector<Floats> a, const std::vector<Floats>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i].insert(a[i].end(), b[i].begin(), b[i].end());
  return a;
}

constexpr int64_t kNumel = 5003;
constexpr int64_t kSteps = 4;
const Hyper kHyper{.lr = 0.01};

// Runs `check(optimizer, dtypes, stream)` for every family and dtype.
template <class Check>
void for_each(const Check& check) {
  for (const Family& family : families()) {
    const std::unique_ptr<Optimizer> optimizer = make_optimizer(family.optimizer);
    for (const Dtypes& types : dtypes()) {
      TestStream s;
      INFO(family.name << ", gradient " << name_of(types.grad));
      check(*optimizer, types, s.stream);
    }
  }
}

TEST_CASE("a shard cut in two is updated to the same bits", "[optim][device]") {
  for_each([](const Optimizer& optimizer, const Dtypes& types, Stream& stream) {
    Piece whole(optimizer, types, 0, kNumel, stream);
    Piece head(optimizer, types, 0, 1234, stream);
    Piece tail(optimizer, types, 1234, kNumel - 1234, stream);
    for (int64_t step = 1; step <= kSteps; ++step) {
      for (Piece* piece : {&whole, &head, &tail}) piece->step(optimizer, step, kHyper, 1, stream);
    }
    REQUIRE(whole.state() == joined(head.state(), tail.state()));
  });
}

TEST_CASE("all parts in one call are updated as each by itself", "[optim][device]") {
  for_each([](const Optimizer& optimizer, const Dtypes& types, Stream& stream) {
    Piece whole(optimizer, types, 0, kNumel, stream);
    const Piece head(optimizer, types, 0, 1234, stream);
    const Piece tail(optimizer, types, 1234, kNumel - 1234, stream);
    std::vector<Shard> parts{head.shard, tail.shard};
    MetaComm alone(0, 1);
    for (int64_t step = 1; step <= kSteps; ++step) {
      whole.step(optimizer, step, kHyper, 1, stream);
      for (const Piece& piece : {head, tail}) Piece(piece).draw_gradient(step, 1, stream);
      optimizer.step(parts, testing::scalars_of(stream, optimizer.inputs(kHyper, step)), alone,
                     stream);
    }
    REQUIRE(whole.state() == joined(head.state(), tail.state()));
  });
}

TEST_CASE("a step that is to be skipped leaves weights, slots and copy as they were",
          "[optim][device]") {
  for_each([](const Optimizer& optimizer, const Dtypes& types, Stream& stream) {
    Piece piece(optimizer, types, 0, kNumel, stream);
    Piece plain(optimizer, types, 0, kNumel, stream);
    for (Piece* each : {&piece, &plain}) each->step(optimizer, 1, kHyper, 1, stream);
    const std::vector<Floats> before = piece.state();
    const float nan = std::nanf("");
    piece.step(optimizer, 2, kHyper, nan, stream, {.grad_scale = nan, .skip = 1});
    REQUIRE(piece.state() == before);
    for (Piece* each : {&piece, &plain}) each->step(optimizer, 2, kHyper, 1, stream);
    REQUIRE(piece.state() == plain.state());
    REQUIRE(piece.state() != before);
  });
}

TEST_CASE("slots of another dtype than the optimizer says are refused", "[optim][device]") {
  for_each([](const Optimizer& optimizer, const Dtypes& types, Stream& stream) {
    const size_t count = optimizer.slots().size();
    for (size_t i = 0; i < count; ++i) {
      Piece piece(optimizer, types, 0, 8, stream);
      REQUIRE(piece.shard.slots[i].dtype() == optimizer.slots()[i].dtype);
      piece.shard.slots[i] = Tensor::zeros({8}, DType::kI8, stream);
      REQUIRE_THROWS_AS(piece.step(optimizer, 1, kHyper, 1, stream), InternalError);
    }
    Piece piece(optimizer, types, 0, 8, stream);
    piece.shard.slots.push_back(Tensor::zeros({8}, DType::kF32, stream));
    REQUIRE_THROWS_WITH(piece.step(optimizer, 1, kHyper, 1, stream),
                        Catch::Contains("slots given, expected"));
  });
}

TEST_CASE("the number of threads changes no bit", "[optim]") {
  for_each([](const Optimizer& optimizer, const Dtypes& types, Stream& stream) {
    TestStream other(5);
    Piece a(optimizer, types, 0, kNumel, stream);
    Piece b(optimizer, types, 0, kNumel, other.stream);
    for (int64_t step = 1; step <= kSteps; ++step) {
      a.step(optimizer, step, kHyper, 1, stream);
      b.step(optimizer, step, kHyper, 1, other.stream);
    }
    REQUIRE(a.state() == b.state());
  });
}

TEST_CASE("a gradient that was scaled by a power of two is unscaled without loss",
          "[optim][device]") {
  for_each([](const Optimizer& optimizer, const Dtypes& types, Stream& stream) {
    Piece plain(optimizer, types, 0, kNumel, stream);
    Piece scaled(optimizer, types, 0, kNumel, stream);
    for (int64_t step = 1; step <= kSteps; ++step) {
      plain.step(optimizer, step, kHyper, 1, stream);
      scaled.step(optimizer, step, kHyper, 16, stream, {.grad_scale = 1.0F / 16});
    }
    REQUIRE(plain.state() == scaled.state());
  });
}

TEST_CASE("the copy is the rounded weight", "[optim][device]") {
  for_each([](const Optimizer& optimizer, const Dtypes& types, Stream& stream) {
    if (!types.copy) return;
    Piece piece(optimizer, types, 0, kNumel, stream);
    piece.step(optimizer, 1, kHyper, 1, stream);
    Tensor rounded = Tensor::empty({kNumel}, *types.copy, stream);
    kernels::cast(stream, piece.shard.master, rounded);
    REQUIRE(floats_of(rounded) == floats_of(piece.shard.copy));
  });
}

TEST_CASE("a step moves every weight by no more than its rate asks", "[optim][device]") {
  for_each([](const Optimizer& optimizer, const Dtypes& types, Stream& stream) {
    Piece piece(optimizer, types, 0, kNumel, stream);
    const Floats before = floats_of(piece.shard.master);
    piece.step(optimizer, 1, {.lr = 0}, 1, stream);
    REQUIRE(floats_of(piece.shard.master) == before);
    piece.step(optimizer, 2, kHyper, 1, stream);
    const Floats after = floats_of(piece.shard.master);
    size_t moved = 0;
    for (size_t i = 0; i < after.size(); ++i) {
      REQUIRE(std::isfinite(after[i]));
      moved += after[i] != before[i] ? 1 : 0;
    }
    REQUIRE(moved > after.size() / 2);
  });
}

TEST_CASE("every family has a name of its own for checkpoints and for each of its slots",
          "[optim]") {
  for (const Family& family : families()) {
    const std::unique_ptr<Optimizer> optimizer = make_optimizer(family.optimizer);
    INFO(family.name);
    CHECK_FALSE(optimizer->family().empty());
    const std::vector<std::string> names = optimizer->slot_names();
    CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  }
}

}  // namespace
}  // namespace ds
