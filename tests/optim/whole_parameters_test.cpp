// Lamb and Muon, which see more of a parameter than one weight. Their numbers are compared with
// DeepSpeed's in tests/zero/optimizers_test.cpp.
#include "optim/whole_parameters.h"

#include <cmath>

#include "comm/traced_comm.h"
#include "kernels/elementwise/elementwise.h"
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

const OptimizerConfig kLamb{.type = OptimizerType::kLamb, .lamb = {.weight_decay = 0.1}};
const OptimizerConfig kMuon{.type = OptimizerType::kMuon, .muon = {.weight_decay = 0.1}};

// One matrix of 24 x 40 and what an optimizer of a kind keeps of it.
Shard matrix_shard(const Optimizer& optimizer, int kind, DType dtype, Stream& stream) {
  constexpr int64_t kNumel = 24 * 40;
  Shard shard;
  shard.master = random_tensor(stream, {kNumel}, 1);
  shard.grad = Tensor::empty({kNumel}, dtype, stream);
  kernels::cast(stream, random_tensor(stream, {kNumel}, 2), shard.grad);
  if (dtype != DType::kF32) shard.copy = Tensor::zeros({kNumel}, dtype, stream);
  for (const SlotSpec& slot : optimizer.slots_of(kind)) {
    shard.slots.push_back(Tensor::zeros({kNumel}, slot.dtype, stream));
  }
  shard.fields = {{.param = 0, .param_begin = 0, .numel = kNumel, .offset = 0}};
  return shard;
}

struct Case {
  std::string name;
  OptimizerConfig config;
  int kind;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> kCases{
      {"lamb", kLamb, 0}, {"muon", kMuon, 1}, {"muon's AdamW", kMuon, 0}};
  return kCases;
}

template <class Check>
void for_each(const Check& check) {
  for (const Case& c : cases()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      TestStream s;
      const std::unique_ptr<Optimizer> optimizer = make_optimizer(c.config);
      const std::vector<ParamPlace> places{{.kind = c.kind, .rows = 24, .numel = 24 * 40}};
      Shard shard = matrix_shard(*optimizer, c.kind, dtype, s.stream);
      INFO(c.name << ", gradient " << name_of(dtype));
      check(*optimizer, shard, places, s.stream);
    }
  }
}

void step(const Optimizer& optimizer, Shard& shard, std::span<const ParamPlace> places,
          Stream& stream, const testing::Verdict& verdict = {}) {
  MetaComm alone(0, 1);
  optimizer.step({&shard, 1},
                 testing::scalars_of(stream, optimizer.inputs({.lr = 0.01}, 1), verdict),
                 {alone, places}, stream);
}

TEST_CASE("a step of Lamb or Muon that is to be skipped changes nothing", "[optim][device]") {
  for_each([](const Optimizer& optimizer, Shard& shard, std::span<const ParamPlace> places,
              Stream& stream) {
    const auto all = [&] {
      std::vector<Floats> state{floats_of(shard.master)};
      for (const Tensor& slot : shard.slots) state.push_back(floats_of(slot));
      if (shard.copy.defined()) state.push_back(floats_of(shard.copy));
      return state;
    };
    const auto before = all();
    step(optimizer, shard, places, stream, {.grad_scale = std::nanf(""), .skip = 1});
    REQUIRE(all() == before);
    step(optimizer, shard, places, stream);
    const auto after = all();
    for (size_t i = 0; i < after.size(); ++i) REQUIRE(after[i] != before[i]);
  });
}

TEST_CASE("the copy is the rounded weight after Lamb and Muon, too", "[optim][device]") {
  for_each([](const Optimizer& optimizer, Shard& shard, std::span<const ParamPlace> places,
              Stream& stream) {
    step(optimizer, shard, places, stream);
    if (!shard.copy.defined()) return;
    const Floats weights = floats_of(shard.master), copies = floats_of(shard.copy);
    for (size_t i = 0; i < weights.size(); ++i) {
      const float rounded = shard.copy.dtype() == DType::kBF16
                                ? static_cast<float>(BF16(weights[i]))
                                : static_cast<float>(F16(weights[i]));
      REQUIRE(copies[i] == rounded);
    }
  });
}

TEST_CASE("Muon's products are of the numbers that ns_dtype says", "[optim][device]") {
  TestStream s;
  const auto weights = [&](NewtonSchulzType type, DType dtype) {
    OptimizerConfig config = kMuon;
    config.muon.ns_dtype = type;
    const std::unique_ptr<Optimizer> optimizer = make_optimizer(config);
    Shard shard = matrix_shard(*optimizer, 1, DType::kBF16, s.stream);
    if (dtype == DType::kF32) shard.copy = {};
    const std::vector<ParamPlace> places{{.kind = 1, .rows = 24, .numel = 24 * 40}};
    step(*optimizer, shard, places, s.stream);
    return floats_of(shard.master);
  };
  using enum NewtonSchulzType;
  const Floats precise = weights(kFp32, DType::kF32), rough = weights(kBf16, DType::kF32);
  CHECK(precise != rough);
  CHECK(weights(kFp32, DType::kBF16) == precise);
  CHECK(weights(kBf16, DType::kBF16) == rough);
  CHECK(weights(kAuto, DType::kF32) == precise);
  CHECK(weights(kAuto, DType::kBF16) == rough);
}

// However many parameters and buckets there are.
TEST_CASE("Lamb costs one small collective a step, Muon none", "[optim][device]") {
  for (const Case& c : cases()) {
    TestStream s;
    const std::unique_ptr<Optimizer> optimizer = make_optimizer(c.config);
    const std::vector<ParamPlace> places(3, {.kind = c.kind, .rows = 24, .numel = 24 * 40});
    std::vector<Shard> parts;
    for (int i = 0; i < 3; ++i) {
      parts.push_back(matrix_shard(*optimizer, c.kind, DType::kF32, s.stream));
      parts.back().fields[0].param = i;
    }
    // Two ranks, of which this is the first and the other has nothing: MetaComm moves no bytes, so
    // what is gathered is looked at by nobody but the step.
    MetaComm pair(0, 2);
    CommVolume volume;
    TracedComm traced(pair, "data", {.volume = &volume});
    optimizer->step(parts,
                    testing::scalars_of(s.stream, optimizer->inputs({.lr = 0.01}, 1), {.skip = 1}),
                    {traced, places}, s.stream);
    INFO(c.name);
    const auto totals = volume.totals();
    if (c.name != "lamb") {
      CHECK(totals.empty());
      continue;
    }
    REQUIRE(totals.size() == 1);
    CHECK(totals.at("data") ==
          CommVolume::ByOp{{"all_gather",
                            {.calls = 1, .tensor_bytes = 2 * 3 * 2 * 8, .wire_bytes = 3 * 2 * 8}}});
  }
}

TEST_CASE("Muon takes matrices that are no tables, and what groups say", "[optim]") {
  const auto kinds = [](std::vector<ParamGroupConfig> groups) {
    const std::vector<ParamFacts> params{{.name = "transformer.wte.weight", .shape = {10, 4}},
                                         {.name = "h.0.c_fc.weight", .shape = {4, 16}},
                                         {.name = "h.0.c_fc.bias", .shape = {16}},
                                         {.name = "model.embed_tokens.weight", .shape = {9, 4}},
                                         {.name = "lm_head.weight", .shape = {9, 4}}};
    OptimizerConfig config = kMuon;
    config.param_groups = std::move(groups);
    std::vector<int> found;
    for (const ParamPlace& place : make_optimizer(config)->place(params)) {
      found.push_back(place.kind);
    }
    return found;
  };
  CHECK(kinds({}) == std::vector{0, 1, 0, 0, 0});
  CHECK(kinds({{.match = {"lm_head*"}, .use_muon = true}, {.match = {"h.*"}, .use_muon = false}}) ==
        std::vector{0, 0, 0, 0, 1});
  CHECK_THROWS_WITH(kinds({{.match = {"*.bias"}, .use_muon = true}}),
                    Catch::Contains("h.0.c_fc.bias has shape [16], and Muon is for matrices"));
}

TEST_CASE("Muon refuses a part of a matrix, and rates in proportion to none", "[optim]") {
  TestStream s;
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(kMuon);
  Shard shard = matrix_shard(*optimizer, 1, DType::kF32, s.stream);
  const std::vector<ParamPlace> larger{{.kind = 1, .rows = 25, .numel = 25 * 40}};
  CHECK_THROWS_WITH(step(*optimizer, shard, larger, s.stream),
                    Catch::Contains("960 elements of parameter 0 are here, expected all 1000"));
  CHECK_THROWS_WITH(
      make_optimizer({.type = OptimizerType::kMuon, .muon = {.lr = 0, .muon_lr = 0.1}}),
      Catch::Contains("muon_lr: 0.1, but optimizer.params.lr is 0"));
  for (OptimizerConfig config : {kLamb, kMuon}) {
    config.moment_dtype = MomentType::kBf16;
    CHECK_THROWS_AS(make_optimizer(config), Unsupported);
  }
}

}  // namespace
}  // namespace ds
