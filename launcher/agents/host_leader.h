// The dslaunch that mpirun or srun started on one host beside the first: each stands for a slot. It
// tells the first, through a Unix socket in the abstract namespace, on which cores its slot may
// run, which GPUs it was left and which process of an MPI job it is, waits, and ends with the exit
// code that it is handed. The kernel says that both are the same user's. Refuses to start anything.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"

namespace ds {

// What one slot may use; the starter's bindings are kept, never widened.
struct SlotShare {
  int local_rank = 0;
  std::vector<int> cores;  // ascending
  // These are the GPUs that CUDA_VISIBLE_DEVICES leaves, in its notation; empty if it is not set.
  std::vector<std::string> gpus{};
  std::vector<std::string> variables{};  // mpi_variables() of its process
  friend bool operator==(const SlotShare&, const SlotShare&) = default;
};

// Pure: one packet, a line and then the variables, each behind a NUL. nullopt: no such text.
std::string share_packet(const SlotShare& share);
std::optional<SlotShare> parse_share(std::string_view packet);

// "dslaunch-slots-..." for the dslaunch of one job and user on one host (pure).
std::string slot_socket_name(std::string_view job, std::string_view host, unsigned uid);

// The first one's end.
class HostLeader {
 public:
  explicit HostLeader(const std::string& name);  // throws IoError where the name is taken

  // Until `peers` of them, local ranks 1 to `peers`, have come. `interrupt_fd` ends the waiting
  // when it becomes readable; -1: nothing does. Throws Error(kClusterUnusable) naming those that
  // did not come.
  std::vector<SlotShare> gather(int peers, std::chrono::seconds limit, int interrupt_fd);
  // Lets them go. Those whom nobody tells a code see the socket end.
  void release(int code) noexcept;

 private:
  Fd listener_;
  std::vector<Fd> connections_;
};

// The other ones' end: returns the exit code; kClusterUnusable when the first ends without a word.
// Throws Error(kClusterUnusable) when it does not appear within `limit`, UsageError where the
// variables are too many to be told.
int wait_for_first(const std::string& name, const SlotShare& share, std::chrono::seconds limit);

}  // namespace ds
