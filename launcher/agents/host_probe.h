// What one host is like, measured there: limits, shared memory, memory, disk, devices, and whether
// it can be dialled. The agent of the host runs it, and the launcher itself for this machine. It
// measures and judges nothing; what is good enough is the business of launcher/report/preflight.h.
#pragma once

#include <string>

#include "core/files/file.h"
#include "launcher/decide/devices/device_choice.h"
#include "proto/agent.pb.h"

namespace ds {

class HostProbe {
 public:
  explicit HostProbe(VisibleGpus gpus) : gpus_(std::move(gpus)) {}
  HostProbe(const HostProbe&) = delete;  // owns a file that it removes
  HostProbe& operator=(const HostProbe&) = delete;
  ~HostProbe() { end(); }

  // Carries the order out and says what came of it; nothing is thrown, what fails is part of the
  // facts. `asked_us` is when the order arrived, by wall_clock_us().
  agent::Facts execute(const agent::Probe& order, int64_t asked_us);

 private:
  void collect(const agent::Probe& order, agent::Facts& facts);
  void write_own_file(const agent::Probe& order, agent::Facts& facts);
  void listen_for_peers(const std::string& address, agent::Facts& facts);
  void end();

  const VisibleGpus gpus_;
  std::string own_file_;
  Fd listener_;
};

int64_t wall_clock_us();

// A file that nobody else has, with this text. Returns why it could not be written, or nothing.
std::string write_new_file(const std::string& path, std::string_view text);

}  // namespace ds
