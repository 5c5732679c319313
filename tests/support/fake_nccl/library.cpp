// A stand-in of NCCL for the emulated device: a library with NCCL's functions, opened as NCCL is,
// that moves bytes between threads and processes of one host. What it is given it gives to the
// stream, an emulated::NativeStream, and does when that comes to it. As NCCL it does not notice
// messages whose sizes differ; other disagreements it reports, and hangs. Its faults are played on
// demand (faults.h).
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/cuda/emulated_stream.h"
#include "tests/support/fake_nccl/group.h"
#include "tests/support/fake_nccl/reduce.h"

namespace ds {
// The types of core/libraries/nccl_functions.inl, so that other definitions do not compile.
#define DS_FUNCTION(result, name, parameters) extern "C" result name parameters;
#include "core/libraries/nccl_functions.inl"
#undef DS_FUNCTION
}  // namespace ds

namespace ds::fake_nccl {
namespace {

std::mutex faults_mutex;
Faults faults;

Faults faults_now() {
  const std::lock_guard lock(faults_mutex);
  return faults;
}

// Calls between ncclGroupStart and ncclGroupEnd, of one thread.
struct OpenGroup {
  int depth = 0;
  std::shared_ptr<Group> group;
  NcclStream stream = nullptr;
  std::vector<Message> messages;
};
thread_local OpenGroup open_group;

void enqueue(NcclStream stream, std::function<void()> work) {
  const auto& queue = *static_cast<const emulated::NativeStream*>(stream);
  queue.enqueue(
      queue.queue, [](void* context) { (*static_cast<std::function<void()>*>(context))(); },
      [](void* context) { delete static_cast<std::function<void()>*>(context); },
      new std::function<void()>(std::move(work)));
}

NcclResult give(NcclHandle* handle, NcclStream stream, const Collective& collective) {
  if (open_group.depth > 0) return NcclResult::kInvalidUsage;  // which nobody needs
  const std::shared_ptr<Group> group = handle->group;
  const int call = group->next_call();
  if (group->refuses(call)) return NcclResult::kInternalError;
  enqueue(stream, [group, call, collective] { group->run(call, collective); });
  return NcclResult::kSuccess;
}

NcclResult give(const std::shared_ptr<Group>& group, NcclStream stream,
                std::vector<Message> messages) {
  const int call = group->next_call();
  if (group->refuses(call)) return NcclResult::kInternalError;
  enqueue(stream, [group, call, messages] { group->run(call, messages); });
  return NcclResult::kSuccess;
}

NcclResult give(NcclHandle* handle, NcclStream stream, const Message& message) {
  if (message.peer < 0 || message.peer >= handle->group->size()) {
    return NcclResult::kInvalidArgument;
  }
  if (open_group.depth == 0) return give(handle->group, stream, std::vector{message});
  open_group.group = handle->group;
  open_group.stream = stream;
  open_group.messages.push_back(message);
  return NcclResult::kSuccess;
}

}  // namespace

extern "C" void fakeNcclPlay(const Faults* next) {
  const std::lock_guard lock(faults_mutex);
  faults = *next;
}
extern "C" int fakeNcclHanging() { return hanging(); }

}  // namespace ds::fake_nccl

namespace ds {

using fake_nccl::Collective;
using fake_nccl::Message;

extern "C" NcclResult ncclGetVersion(int* version) {
  *version = fake_nccl::faults_now().version;
  return NcclResult::kSuccess;
}

extern "C" const char* ncclGetErrorString(NcclResult result) {
  switch (result) {
    case NcclResult::kSuccess:
      return "no error";
    case NcclResult::kRemoteError:
      return "remote error";
    case NcclResult::kSystemError:
      return "system error";
    case NcclResult::kInvalidUsage:
      return "the ranks disagree";
    default:
      return "error";
  }
}

extern "C" const char* ncclGetLastError(NcclHandle* /*comm*/) { return ""; }

extern "C" NcclResult ncclGetUniqueId(NcclId* id) {
  if (fake_nccl::faults_now().no_id) return NcclResult::kSystemError;
  std::random_device random;
  *id = {};
  std::snprintf(id->bytes.data(), id->bytes.size(), "/fake-nccl-%08x%08x", random(), random());
  return NcclResult::kSuccess;
}

extern "C" NcclResult ncclCommInitRankConfig(NcclHandle** comm, int size, NcclId id, int rank,
                                             NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) return NcclResult::kInvalidArgument;
  *comm = new NcclHandle{
      std::make_shared<fake_nccl::Group>(id.bytes.data(), size, rank, fake_nccl::faults_now())};
  return NcclResult::kInProgress;
}

extern "C" NcclResult ncclCommGetAsyncError(NcclHandle* comm, NcclResult* state) {
  *state = comm->group->state();
  return NcclResult::kSuccess;
}

extern "C" NcclResult ncclCommFinalize(NcclHandle* /*comm*/) { return NcclResult::kInProgress; }

extern "C" NcclResult ncclCommDestroy(NcclHandle* comm) {
  delete comm;
  return NcclResult::kSuccess;
}

extern "C" NcclResult ncclCommAbort(NcclHandle* comm) {
  comm->group->end();
  delete comm;
  return NcclResult::kSuccess;
}

extern "C" NcclResult ncclCommSplit(NcclHandle* comm, int color, int key, NcclHandle** split,
                                    NcclConfig* config) {
  if (config->blocking != 0 || color < 0) return NcclResult::kInvalidArgument;
  comm->group->begin_split(color, key, split);
  return NcclResult::kInProgress;
}

extern "C" NcclResult ncclCommRegister(const NcclHandle* /*comm*/, void* buffer, size_t bytes,
                                       void** handle) {
  *handle = buffer;
  return bytes > 0 ? NcclResult::kSuccess : NcclResult::kInvalidArgument;
}

extern "C" NcclResult ncclCommDeregister(const NcclHandle* /*comm*/, void* handle) {
  return handle != nullptr ? NcclResult::kSuccess : NcclResult::kInvalidArgument;
}

extern "C" NcclResult ncclAllReduce(const void* from, void* to, size_t count, NcclType type,
                                    NcclReduce op, NcclHandle* comm, NcclStream stream) {
  return fake_nccl::give(comm, stream,
                         Collective{.kind = Collective::Kind::kAllReduce,
                                    .type = type,
                                    .reduce = op,
                                    .count = count,
                                    .from = static_cast<const std::byte*>(from),
                                    .to = static_cast<std::byte*>(to)});
}

extern "C" NcclResult ncclReduceScatter(const void* from, void* to, size_t count_received,
                                        NcclType type, NcclReduce op, NcclHandle* comm,
                                        NcclStream stream) {
  return fake_nccl::give(comm, stream,
                         Collective{.kind = Collective::Kind::kReduceScatter,
                                    .type = type,
                                    .reduce = op,
                                    .count = count_received,
                                    .from = static_cast<const std::byte*>(from),
                                    .to = static_cast<std::byte*>(to)});
}

extern "C" NcclResult ncclAllGather(const void* from, void* to, size_t count_sent, NcclType type,
                                    NcclHandle* comm, NcclStream stream) {
  return fake_nccl::give(comm, stream,
                         Collective{.kind = Collective::Kind::kAllGather,
                                    .type = type,
                                    .count = count_sent,
                                    .from = static_cast<const std::byte*>(from),
                                    .to = static_cast<std::byte*>(to)});
}

extern "C" NcclResult ncclBroadcast(const void* from, void* to, size_t count, NcclType type,
                                    int root, NcclHandle* comm, NcclStream stream) {
  return fake_nccl::give(comm, stream,
                         Collective{.kind = Collective::Kind::kBroadcast,
                                    .type = type,
                                    .root = root,
                                    .count = count,
                                    .from = static_cast<const std::byte*>(from),
                                    .to = static_cast<std::byte*>(to)});
}

extern "C" NcclResult ncclSend(const void* from, size_t count, NcclType type, int peer,
                               NcclHandle* comm, NcclStream stream) {
  auto* const data = static_cast<std::byte*>(const_cast<void*>(from));  // it is only read
  return fake_nccl::give(comm, stream,
                         Message{.way = Message::Way::kSend,
                                 .peer = peer,
                                 .data = data,
                                 .bytes = count * fake_nccl::width_of(type)});
}

extern "C" NcclResult ncclRecv(void* to, size_t count, NcclType type, int peer, NcclHandle* comm,
                               NcclStream stream) {
  return fake_nccl::give(comm, stream,
                         Message{.way = Message::Way::kReceive,
                                 .peer = peer,
                                 .data = static_cast<std::byte*>(to),
                                 .bytes = count * fake_nccl::width_of(type)});
}

extern "C" NcclResult ncclGroupStart() {
  ++fake_nccl::open_group.depth;
  return NcclResult::kSuccess;
}

extern "C" NcclResult ncclGroupEnd() {
  auto& open = fake_nccl::open_group;
  if (open.depth == 0) return NcclResult::kInvalidUsage;
  if (--open.depth > 0 || open.messages.empty()) return NcclResult::kSuccess;
  return fake_nccl::give(std::exchange(open.group, nullptr), open.stream,
                         std::exchange(open.messages, {}));
}

}  // namespace ds
