// One rank's end of one communicator of the stand-in.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/libraries/nccl_abi.h"
#include "tests/support/fake_nccl/faults.h"
#include "tests/support/fake_nccl/segment.h"

namespace ds::fake_nccl {

struct Collective {
  enum class Kind : int { kAllReduce, kReduceScatter, kAllGather, kBroadcast };
  Kind kind{};
  NcclType type{};
  NcclReduce reduce{};
  int root = 0;
  size_t count = 0;  // as NCCL's function is given it
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
};

struct Message {
  enum class Way : uint8_t { kSend, kReceive };
  Way way{};
  int peer = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
};

class Group {
 public:
  Group(const std::string& name, int size, int rank, Faults faults);

  int size() const { return size_; }
  int rank() const { return rank_; }

  // On the thread that asks. What is under way: meeting the others, or a split.
  NcclResult state();
  void begin_split(int color, int key, NcclHandle** into);
  void end() { ended_ = true; }  // whoever waits in it goes on

  // The number of a call, from 1; what it is told to do wrong happens in run().
  int next_call() { return ++calls_; }
  bool refuses(int call) const { return is_about_me() && faults_.refuses_call == call; }
  void run(int call, const Collective& collective);
  // All of a group of calls: they go on side by side.
  void run(int call, std::vector<Message> messages);

 private:
  bool is_about_me() const { return faults_.rank < 0 || faults_.rank == rank_; }
  bool plays_fault(int call);
  bool until(const std::function<bool()>& is_so) const;
  void hang() const;
  using Take = std::function<void(uint32_t round)>;
  bool round(const Collective& collective, const Take& take);
  bool all(const std::function<bool(const Place&)>& is_so) const;
  bool move(const Message& message, size_t& done) const;

  const int size_, rank_;
  const Faults faults_;
  Segment segment_;
  std::atomic<bool> ended_ = false;
  std::atomic<NcclResult> error_ = NcclResult::kSuccess;
  bool met_ = false;
  int calls_ = 0;
  uint32_t rounds_ = 0;
  uint32_t splits_ = 0;
  NcclHandle** split_into_ = nullptr;  // while one is under way
};

int hanging();  // groups that hang, of the process

}  // namespace ds::fake_nccl

namespace ds {

struct NcclHandle {
  std::shared_ptr<fake_nccl::Group> group;
};

}  // namespace ds
