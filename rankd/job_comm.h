// What the ranks of a job meet over, and what is kept of their calls.
#pragma once

#include <memory>
#include <utility>

#include "comm/calls/recorded_calls.h"
#include "comm/calls/timed_call.h"
#include "comm/mesh_layout.h"
#include "comm/tcp/comm.h"
#include "comm/traced_comm.h"
#include "config/config.h"
#include "rankd/control/control_client.h"
#include "train/settings/job.h"

namespace ds {

class JobComm {
 public:
  // Meets all ranks of the job; the control connection answers from now on which collective this
  // rank is in. The listener is taken where the plan has data endpoints. Throws Unsupported where
  // ranks were told no address to listen on, ConfigError on all of them where the mesh wants hosts
  // of equal size and they are not.
  JobComm(const JobPlan& plan, ControlClient& control, TcpListener& listener, const Config& config,
          const MeshSizes& sizes);
  JobComm(const JobComm&) = delete;  // sinks point into it
  JobComm& operator=(const JobComm&) = delete;

  Communicator& world() { return *world_; }
  // A group of its own: what hosts copy to each other is no part of the order of the other calls.
  // Null where they copy nothing.
  std::unique_ptr<Communicator> take_copies() { return std::move(copies_); }
  TracedComm::Sinks sinks();
  CommVolume& volume() { return volume_; }
  RecordedCalls& recorded() { return recorded_; }
  CallQueue& calls() { return calls_; }  // of all groups

 private:
  struct OwnLedger;  // shared with the control connection, which outlives training
  CommVolume volume_;
  RecordedCalls recorded_;
  CallQueue calls_;
  std::shared_ptr<OwnLedger> ledger_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Communicator> copies_;
};

}  // namespace ds
