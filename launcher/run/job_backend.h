// Over what the ranks of a job talk to each other: the facts for launcher/decide/data_plane.h, and
// what its answer means for the run.
#pragma once

#include <optional>

#include "launcher/agents/started_place.h"
#include "launcher/decide/hosts/host_choice.h"
#include "launcher/decide/text/environment.h"
#include "launcher/run/supervisor.h"

namespace ds {

// For a job whose nodes, shape and recovery are set. `place`: of this process among many, where
// mpirun or srun started them. Throws what choose_data_plane() throws.
void choose_backend(TrainingJob& job, const HostChoice& choice, const Environment& environment,
                    const std::optional<StartedPlace>& place);

}  // namespace ds
