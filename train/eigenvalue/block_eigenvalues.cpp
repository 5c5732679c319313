#include "train/eigenvalue/block_eigenvalues.h"

#include <chrono>
#include <string>

#include "core/tasks/clock.h"
#include "core/values/rng.h"
#include "train/eigenvalue/block_hessian.h"

namespace ds {
namespace {

const EigenvalueOptions& options_of(const Engine& engine) {
  DS_CHECK(engine.options().eigenvalues.has_value(), "eigenvalues: nobody asked for them");
  return *engine.options().eigenvalues;
}

std::vector<ParamId> params_of(Engine& engine, int64_t block) {
  const std::string path = fmt::format("{}.{}.", options_of(engine).list, block);
  std::vector<ParamId> params;
  for (ParamId id = 0; id < engine.store().count(); ++id) {
    if (engine.store().spec(id).name.starts_with(path)) params.push_back(id);
  }
  DS_CHECK(!params.empty(), "eigenvalues: no parameter is called {}*", path);
  return params;
}

// The same in every run and on every rank.
std::vector<float> first_vector(const Engine& engine, int64_t block, int64_t numel) {
  const Rng rng = Rng(engine.options().seed, "eigenvalue").derive(static_cast<uint64_t>(block));
  std::vector<float> v(to_size(numel));
  rng.normals(0, v);
  return v;
}

}  // namespace

BlockEigenvalues::BlockEigenvalues(Engine& engine, BatchSource& source, RunReports& reports)
    : engine_(engine), source_(source), reports_(reports), every_(options_of(engine).every) {}

void BlockEigenvalues::at_edge(int64_t steps_done) {
  if (!is_due(steps_done)) return;
  const auto begun = std::chrono::steady_clock::now();
  const EigenvalueOptions& options = options_of(engine_);
  const bool tells = options.verbose && engine_.host().rank() == 0;
  HostCopy copy(engine_.stream());
  HeldBatch batch(engine_, source_, steps_done - 1, engine_.options().micro_steps() - 1);
  std::vector<double> found;
  int products = 0;
  for (int64_t block = 0; block < options.blocks; ++block) {
    BlockHessian hessian(engine_, batch, copy, params_of(engine_, block));
    const PowerResult result = largest_eigenvalue(
        first_vector(engine_, block, hessian.numel()), options.rules,
        [&](const std::vector<float>& v) {
          // Each is a sign of life.
          reports_.report_progress(
              {.step = steps_done, .micro_step = products++, .phase = "eigenvalue"});
          return hessian.times(v);
        },
        [&](int64_t iteration, double estimate) {
          if (!tells) return;
          reports_.report_text(fmt::format("eigenvalue: step {}, block {}, iteration {}: {:.6g}",
                                           steps_done, block, iteration, estimate));
        });
    found.push_back(result.eigenvalue);
  }
  newest_ = relative_to_largest(found);
  seconds_ += seconds_since(begun);
}

void BlockEigenvalues::measure(Measured& measured) const {
  measured.results["eigenvalue_s"] = seconds_;
}

void rehearse_eigenvalues(Engine& engine, BatchSource& source) {
  HostCopy copy(engine.stream());
  HeldBatch batch(engine, source, 0, engine.options().micro_steps() - 1);
  for (int64_t block = 0; block < options_of(engine).blocks; ++block) {
    BlockHessian hessian(engine, batch, copy, params_of(engine, block));
    hessian.rehearse();
  }
}

}  // namespace ds
