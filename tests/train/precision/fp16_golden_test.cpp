// A run in fp16 by PyTorch with the loss scaler of DeepSpeed, made once by golden/fp16_gpt2.py, and
// made here by the engine over two ranks: losses, norms, rates, and each step's loss scale.
#include <cmath>

#include "config/reader/json_reader.h"
#include "config/reader/value.h"
#include "core/files/file.h"
#include "optim/loss_scaler.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/ranks.h"
#include "tests/train/runs/small_engine.h"

namespace ds {
namespace {

using namespace testing;

struct GoldenStep {
  double loss = 0, lr = 0, loss_scale = 0;
  std::optional<double> grad_norm;  // nothing: it overflowed
};

std::vector<GoldenStep> read_golden() {
  RealFileSystem files;
  const std::string path = source_directory() + "/tests/train/golden/fp16_gpt2.json";
  const Value all = read_config_document(files.read_text(path, 1 << 20), path);
  std::vector<GoldenStep> steps;
  for (const Value& step : all.find("steps")->items()) {
    const Value& norm = *step.find("grad_norm");
    steps.push_back({.loss = step.find("loss")->as_number(),
                     .lr = step.find("lr")->as_number(),
                     .loss_scale = step.find("loss_scale")->as_number(),
                     .grad_norm = norm.is_null() ? std::nullopt : std::optional(norm.as_number())});
  }
  return steps;
}

// As first_value() of the script.
float first_value(const std::string& name, int64_t index) {
  const bool is_bias = name.ends_with("bias");
  if (is_bias || name.find("ln_") != std::string::npos) return is_bias ? 0.0F : 1.0F;
  int seed = 0;
  for (const char letter : name) seed += static_cast<unsigned char>(letter);
  return static_cast<float>(0.06 * std::sin(0.9 * static_cast<double>(index) + seed % 97));
}

void set_first_weights(Engine& engine) {
  engine.store().state().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
    for (const ShardField& field : part.fields) {
      const std::string& name = engine.store().spec(field.param).name;
      auto* const values = part.master.data<float>() + field.offset;
      for (int64_t i = 0; i < field.numel; ++i) {
        values[i] = first_value(name, field.param_begin + i);
      }
    }
  });
  engine.store().state().restore_from_owned();
}

// From here on the rounding of this CPU's products decides which gradients are too large for fp16.
constexpr int64_t kFirstOfChance = 13;

TEST_CASE("the fp16 run of PyTorch is reproduced, with each step's loss scale", "[train]") {
  const std::vector<GoldenStep> golden = read_golden();
  const EngineOptions options =
      options_of({.ranks = 2,
                  .stage = 2,
                  .dtype = DType::kF16,
                  .optimizer = {.adam = {.lr = 0.002, .weight_decay = 0.1}},
                  .loss_scale = loss_scale_rule(
                      {.initial_scale_power = 18, .loss_scale_window = 3, .hysteresis = 2})});
  test::run_ranks(2, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), std::nullopt);
    set_first_weights(engine);
    CountingSource source(options, comm.rank(), 2);
    for (const GoldenStep& expected : golden) {
      const StepResult got = train_step(engine, source);
      if (got.step == kFirstOfChance) return;
      if (comm.rank() != 0) continue;
      INFO("step " << got.step);
      CHECK(got.metrics.at("loss") == Approx(expected.loss).epsilon(2e-3));
      CHECK(got.metrics.at("lr") == Approx(expected.lr).margin(1e-8));
      CHECK(got.metrics.at("loss_scale") == expected.loss_scale);
      const double norm = got.metrics.at("grad_norm");
      CHECK(std::isfinite(norm) == expected.grad_norm.has_value());
      // Adam's first updates have the size of the rate however small a gradient is, so roundings
      // grow: noise of 0.1 % on PyTorch's own gradients moves these norms as much.
      const double allowed = got.step <= 9 ? 2e-2 : 0.1;
      if (expected.grad_norm) CHECK(norm == Approx(*expected.grad_norm).epsilon(allowed));
    }
  });
}

}  // namespace
}  // namespace ds
