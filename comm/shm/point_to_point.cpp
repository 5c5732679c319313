// Sends and receives: up to kMailboxMessages messages per ordered pair are under way at a time,
// each in a payload of its own, so that a send returns without its receiver.
#include <cstring>

#include "comm/contract/collective_checks.h"
#include "comm/shm/group.h"
#include "core/values/index.h"

namespace ds::detail {

void ShmComm::send(const Tensor& tensor, int to, Stream& /*stream*/) {
  check_peer("send", rank_, to, size_);
  check_failure();
  op_ = CommOp::kSend;
  const auto peer = to_size(to);
  Mailbox& box = layout_.mailbox(base_, rank_, to);
  const uint32_t number = sent_[peer] + 1;
  await(box.received, number - static_cast<uint32_t>(kMailboxMessages), to, Lagging::kOnePeer);
  reclaim_payloads(to);
  std::byte* const payload = world_->make_payload(tensor.bytes());
  if (tensor.bytes() != 0) std::memcpy(payload, tensor.raw(), tensor.bytes());
  box.messages[number % kMailboxMessages] = {tensor.numel(), world_->payload_location(payload),
                                             tensor.dtype()};
  outbox_[peer].push_back({number, payload});
  sent_[peer] = number;
  raise(box.sent, number);
}

void ShmComm::recv(Tensor& tensor, int from, Stream& /*stream*/) {
  check_peer("recv", rank_, from, size_);
  check_failure();
  op_ = CommOp::kRecv;
  const auto peer = to_size(from);
  Mailbox& box = layout_.mailbox(base_, from, rank_);
  const uint32_t number = received_[peer] + 1;
  await(box.sent, number, from, Lagging::kOnePeer);
  const Message message = box.messages[number % kMailboxMessages];
  if (message.numel != tensor.numel() || message.dtype != tensor.dtype()) {
    fail(fmt::format("the ranks disagree: rank {} sent {} x {}, rank {} expects {} x {}", from,
                     name_of(message.dtype), message.numel, rank_, name_of(tensor.dtype()),
                     tensor.numel()));
  }
  std::byte* const payload = world_->resolve(members_[peer], message.location, tensor.bytes());
  if (tensor.bytes() != 0) std::memcpy(tensor.raw(), payload, tensor.bytes());
  world_->discard(payload);
  received_[peer] = number;
  raise(box.received, number);
}

void ShmComm::reclaim_payloads(int to) {
  auto& outbox = nth(outbox_, to);
  const Flag& received = layout_.mailbox(base_, rank_, to).received;
  while (!outbox.empty() && reached(received, outbox.front().number)) {
    world_->reclaim(outbox.front().payload);
    outbox.pop_front();
  }
}

// The payloads lie in our memory, which ends with us. What a failed group did not take stays
// allocated until the world goes: a peer may still be reading it.
void ShmComm::drain_outboxes() noexcept {
  if (world_->payloads_outlive_sender()) return;
  for (int to = 0; to < size_; ++to) {
    const auto peer = to_size(to);
    if (outbox_[peer].empty()) continue;
    try {
      check_failure();
      op_ = CommOp::kSend;
      await(layout_.mailbox(base_, rank_, to).received, sent_[peer], to, Lagging::kOnePeer);
    } catch (const Error&) {
      // Already told to the peers through the group's failure; a destructor cannot say it again.
    }
    reclaim_payloads(to);
  }
}

}  // namespace ds::detail
