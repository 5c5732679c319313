// The metrics of a step (core/values/step_metrics.h) as they travel from rank 0 to the launcher.
#pragma once

#include "core/values/step_metrics.h"
#include "proto/control.pb.h"

namespace ds {

control::StepMetrics to_proto(const StepMetrics& metrics);
// A name that is in no row of this build is passed over: nobody here could show it. Ranks and
// launchers of different builds are refused when a rank joins.
StepMetrics from_proto(const control::StepMetrics& in);

}  // namespace ds
