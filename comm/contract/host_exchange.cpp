#include "comm/contract/host_exchange.h"

#include "core/tasks/host.h"

namespace ds {
namespace {

Tensor as_tensor(std::span<std::byte> bytes) {
  return Tensor::borrow(bytes.data(), {narrow<int64_t>(bytes.size())}, DType::kU8);
}

// Communicators only read what they send, but a tensor does not say so.
const Tensor as_tensor(std::span<const std::byte> bytes) {
  return as_tensor(std::span(const_cast<std::byte*>(bytes.data()), bytes.size()));
}

}  // namespace

HostExchange::HostExchange(Communicator& group)
    : group_(group),
      stream_({.device = Device::cpu(), .memory = &memory_, .pool = &pool_, .trace = nullptr}) {}

void HostExchange::gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all) {
  Tensor gathered = as_tensor(all);
  group_.all_gather(as_tensor(mine), gathered, stream_);
}

void HostExchange::send(std::span<const std::byte> bytes, int to) {
  group_.send(as_tensor(bytes), to, stream_);
}

void HostExchange::receive(std::span<std::byte> bytes, int from) {
  Tensor into = as_tensor(bytes);
  group_.recv(into, from, stream_);
}

void HostExchange::broadcast(std::span<std::byte> bytes, int root) {
  Tensor inout = as_tensor(bytes);
  group_.broadcast(inout, root, stream_);
}

std::vector<std::string> HostExchange::gather_host_names() {
  std::array<char, 64> mine{};
  put_text(mine, own_host_name());
  std::vector<std::string> names;
  for (const auto& name : gather(std::vector{mine})) names.emplace_back(name.data());
  return names;
}

void HostExchange::agree_on_success(const std::string& what, const std::string& error) {
  const Span span = labelled(what);
  WireFailure mine;
  if (!error.empty()) mine.set(error);
  const std::vector<WireFailure> all = gather(std::vector{mine});
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].error[0] == 0) continue;
    const std::string message = fmt::format("{}: {}", what, in_words(rank, all[rank]));
    if (error.empty()) throw PeerIoError(message);
    throw IoError(message);
  }
}

void WireFailure::set(std::string_view why) {
  put_text(host, own_host_name());
  put_text(error, why);
}

std::string in_words(size_t rank, const WireFailure& failure) {
  return fmt::format("rank {} on {}: {}", rank, failure.host.data(), failure.error.data());
}

}  // namespace ds
