// What a stranger or a broken peer may send to a rank's data listener: the handshake must never
// admit bytes that were not made with the secret, and the frame reader must keep to its payloads.
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "comm/tcp/handshake.h"
#include "comm/tcp/link.h"
#include "tests/fuzz/one_input.h"

namespace {

using namespace ds::detail;

void shake_hands(std::span<const std::byte> bytes) {
  const HandshakeParty self{1, 4, 7, std::string(32, 's')};
  TcpHandshake accept = TcpHandshake::accept(self, ProofBytes{});
  while (!bytes.empty() && accept.wanted() != 0) {
    const size_t part = std::min(bytes.size(), accept.wanted());
    accept.feed(bytes.first(part));
    bytes = bytes.subspan(part);
  }
  if (!accept.take_output().empty()) std::abort();  // an answer to who does not know the secret
}

// Takes frames of up to a limit, and checks that begin and end alternate.
class CountingSink final : public FrameSink {
 public:
  std::byte* begin_frame(int /*peer*/, const Frame& frame) override {
    constexpr size_t kLimit = 1 << 16;
    if (open_) std::abort();
    open_ = true;
    if (frame.bytes > kLimit || frame.bytes == 0) return nullptr;
    payload_.resize(frame.bytes);
    return payload_.data();
  }
  void end_frame(int /*peer*/) override {
    if (!open_) std::abort();
    open_ = false;
  }

 private:
  std::vector<std::byte> payload_;
  bool open_ = false;
};

void read_frames(std::span<const std::byte> bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return;
  const ds::Fd peer(ends[1]);
  CountingSink sink;
  TcpLink link(ds::Fd(ends[0]), 1, sink);
  while (!bytes.empty() && !link.closed()) {
    const size_t part = std::min<size_t>(bytes.size(), 1 + bytes.size() / 3);
    if (send(peer.get(), bytes.data(), part, MSG_NOSIGNAL) < 0) return;
    bytes = bytes.subspan(part);
    link.read_some();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = ds::fuzz::bytes_of(data, size);
  shake_hands(bytes);
  read_frames(bytes);
  return 0;
}
