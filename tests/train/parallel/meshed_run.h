// Small runs of given models over a mesh: what they come to, beside a run of one rank, and what a
// step of theirs moves and keeps, beside what was planned.
#pragma once

#include <cmath>
#include <mutex>

#include "tests/support/catch.h"
#include "tests/support/memory_file_system.h"
#include "tests/train/small_run.h"

namespace ds::testing {

inline EngineOptions options_with(const Setting& setting, const ModelConfig& model) {
  EngineOptions options = options_of(setting);
  options.model = model;
  return options;
}

inline Outcome run_model(const Setting& setting, const ModelConfig& model, FileSystem& files,
                         int64_t until) {
  return train(setting, options_with(setting, model), files, until);
}

inline Outcome run_model(const Setting& setting, const ModelConfig& model, int64_t until = 4) {
  MemoryFileSystem disk;
  return run_model(setting, model, disk, until);
}

inline void require_losses_near(const Outcome& got, const Outcome& expected, double within) {
  REQUIRE(got.losses.size() == expected.losses.size());
  for (size_t i = 0; i < got.losses.size(); ++i) {
    CHECK(got.losses[i] == Approx(expected.losses[i]).epsilon(within));
  }
  CHECK(got.validation_loss == Approx(expected.validation_loss).epsilon(within));
}

// Adam's first updates hardly depend on how large a gradient is, but on its sign: where it is
// nearly nothing, weights may go apart by twice the rate.
inline void require_near(const Outcome& got, const Outcome& expected, double within) {
  require_losses_near(got, expected, within);
  REQUIRE(got.state.size() == expected.state.size());
  for (const auto& [name, values] : expected.state) {
    const std::vector<float>& own = got.state.at(name);
    REQUIRE(own.size() == values.size());
    double apart = 0, length = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      apart += std::pow(own[i] - values[i], 2);
      length += std::pow(values[i], 2);
    }
    CAPTURE(name);
    CHECK(std::sqrt(apart) <= 1e-2 * std::sqrt(length) + 1e-7);
  }
}

// One step of a rank: what it moves along each axis and what that was planned to be.
struct Moved {
  CommVolume::ByAxis traffic;
  std::map<std::string, std::map<std::string, double>> planned;
};

// By rank. Each has the memory that was planned for it.
inline std::vector<Moved> moved_by(const Setting& setting, const EngineOptions& options) {
  const RunPlan plan = dry_run(options, mesh_of(setting), {});
  std::vector<Moved> moved(to_size(setting.ranks));
  test::run_ranks(setting.ranks, [&](Communicator& world) {
    CommVolume volume;
    Connections connections = Connections::over(world, plan.mesh, {.volume = &volume});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    const RankPlan& own = plan.of_rank(world.rank());
    Engine engine(options, workspace.resources(), own.step);
    engine.initialize();
    volume.reset();
    const Mesh& mesh = engine.mesh();
    CountingSource source(options, mesh);
    train_step(engine, source);
    nth(moved, world.rank()) = {.traffic = volume.totals(), .planned = own.wire_bytes};
    engine.evaluate(source, 1);
    test::require(nth(workspace.usage(), Tier::kDevice).tag_bytes_at_peak ==
                      nth(own.memory, Tier::kDevice).tag_bytes_at_peak,
                  "rank {}: another peak than planned", world.rank());
  });
  return moved;
}

inline void check_as_planned(const Moved& moved) {
  for (const auto& [axis, ops] : moved.traffic) {
    for (const auto& [op, count] : ops) {
      CAPTURE(axis, op);
      CHECK(moved.planned.at(axis).at(op) == static_cast<double>(count.wire_bytes));
    }
  }
}

}  // namespace ds::testing
