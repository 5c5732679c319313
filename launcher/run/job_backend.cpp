#include "launcher/run/job_backend.h"

#include "core/values/index.h"
#include "proto/build_info.h"

namespace ds {

void choose_backend(TrainingJob& job, const HostChoice& choice, const Environment& environment,
                    const std::optional<StartedPlace>& place) {
  DataPlaneFacts facts{.asked = job.config.backend,
                       .hosts = narrow<int>(job.nodes.nodes.size()),
                       .by_agents = !choice.hosts.empty() && choice.kind != RunnerKind::kLocal,
                       .ranks = job.shape.ranks,
                       .built_with_mpi = build_info().has_mpi};
  if (place) {
    facts.starter = place->starter;
    facts.started = place->size;
    facts.offers_pmix = offers_pmix(environment);
  }
  job.data_plane = choose_data_plane(facts);
  if (job.data_plane != DataPlane::kMpi) return;
  job.recovery.max_restarts = 0;
  job.config.notes.push_back(
      fmt::format("an MPI job cannot lose a rank and go on: a failure ends this run, and a new {} "
                  "goes on from its newest checkpoint",
                  place->starter));
}

}  // namespace ds
