// What goes over the control connection, as the plain values of train/settings/job.h and back.
#pragma once

#include <optional>

#include "core/status/error.h"
#include "proto/control.pb.h"
#include "train/settings/job.h"

namespace ds {

JobPlan to_job_plan(const control::JobPlan& in);
control::FinalReport::Origin to_origin(ErrorOrigin origin);
// Nothing for a newer launcher's command, which is not ours to act on.
std::optional<Command> to_command(control::CommandMessage::Kind kind);
TraceOrder to_trace_order(const control::CommandMessage& in);

}  // namespace ds
