// A model of your own on several stages: a stack of layers that tells classes of points, trained by
// one rank and by as many as you say (2), whose losses have to be the same.
//
// usage: pipeline_module [STAGES]
#include <cmath>
#include <cstdlib>
#include <future>

#include "comm/peers.h"
#include "comm/shm/comm.h"
#include "core/values/rng.h"
#include "examples/pipeline_module/layers.h"
#include "train/engine.h"
#include "train/workspace.h"

namespace ds::example {
namespace {

constexpr int64_t kPoint = 16, kWidth = 48, kClasses = 4;
constexpr int64_t kMicroBatch = 4;
constexpr int kMicroBatches = 8, kSteps = 20;

std::shared_ptr<const PipelineModule> network() {
  PipelineModuleParts parts{.input = {.shape = {1, kPoint}},
                            .label = {.shape = {1}, .dtype = DType::kI32},
                            .layers = {described<Linear, PipelineLayer>("Linear", kPoint, kWidth)},
                            .loss = described<Classes, PipelineLoss>("Classes", kWidth, kClasses),
                            .activation_checkpoint_interval = 2};
  for (int i = 0; i < 4; ++i) {
    parts.layers.push_back(described<Mlp, PipelineLayer>("Mlp", kWidth, 2 * kWidth));
    parts.layers.push_back(described<LayerNorm, PipelineLayer>("LayerNorm", kWidth));
  }
  return std::make_shared<const PipelineModule>(std::move(parts));
}

// Points of an endless stream, the same on every rank; their class is the largest of the first few
// coordinates.
class Points final : public BatchSource {
 public:
  void fill(int64_t step, int micro_step, const MicroBatch& batch) override {
    const Rng rng =
        Rng(7, "points").derive(static_cast<uint64_t>(step * kMicroBatches + micro_step));
    std::vector<float> points(to_size(kMicroBatch * kPoint));
    for (size_t i = 0; i < points.size(); ++i) {
      points[i] = static_cast<float>(rng.bits(i) % 2001) / 1000.0F - 1.0F;
    }
    if (batch.has(batch_field::kInputs)) {
      std::ranges::copy(points, batch.values<float>(batch_field::kInputs).begin());
    }
    if (!batch.has(batch_field::kLabels)) return;
    const std::span<int32_t> labels = batch.values<int32_t>(batch_field::kLabels);
    for (size_t sample = 0; sample < to_size(kMicroBatch); ++sample) {
      const auto first = points.begin() + static_cast<std::ptrdiff_t>(sample * kPoint);
      labels[sample] = static_cast<int32_t>(std::max_element(first, first + kClasses) - first);
    }
  }
  int64_t first_sample(int micro_step) const override { return micro_step * kMicroBatch; }
};

EngineOptions options_of(const std::shared_ptr<const PipelineModule>& net) {
  return {.model = {},
          .module = net,
          .zero = {.placement = {.policy = zero_policy(0)}, .wire = {.micro_steps = kMicroBatches}},
          .optimizer = {.adam = {.lr = 0.01}},
          .schedule = {},
          .micro_batch = kMicroBatch,
          .pipeline = {.schedule = PipelineKind::k1F1B, .partition = "parameters"}};
}

// The losses of this rank's steps; every rank learns the same.
std::vector<double> train(const std::shared_ptr<const PipelineModule>& net, Communicator& world) {
  Connections connections = Connections::over(world, {.pipe = world.size()});
  Workspace workspace(Device::cpu(), 1, connections.peers());
  Engine engine(options_of(net), workspace.resources(), std::nullopt);
  engine.initialize();
  Points points;
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    engine.begin_step(points, 0);
    losses.push_back(engine.next_result(Wait::kYes)->metrics.at("loss"));
  }
  return losses;
}

// Ranks are threads here; those of open_shm_group() are processes, and nothing else changes.
std::vector<double> train_on(int stages) {
  const auto net = network();
  const auto ranks = make_thread_group(stages);
  std::vector<std::future<std::vector<double>>> losses;
  for (const auto& world : ranks) {
    losses.push_back(std::async(std::launch::async, [&net, &world] { return train(net, *world); }));
  }
  std::vector<double> last;
  for (auto& of_rank : losses) last = of_rank.get();
  return last;
}

int compare(int stages) {
  const std::vector<double> alone = train_on(1), cut = train_on(stages);
  double apart = 0;
  for (size_t step = 0; step < alone.size(); ++step) {
    apart = std::max(apart, std::abs(cut[step] - alone[step]) / alone[step]);
  }
  fmt::print("1 rank: loss {:.6f} to {:.6f}; {} stages: {:.6f} to {:.6f}; apart by {:.1e}\n",
             alone.front(), alone.back(), stages, cut.front(), cut.back(), apart);
  return apart <= 1e-6 && alone.back() < 0.9 * alone.front() ? 0 : 1;
}

}  // namespace
}  // namespace ds::example

int main(int argc, char** argv) {
  try {
    return ds::example::compare(argc > 1 ? std::atoi(argv[1]) : 2);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
