// One connection to one peer, cut into frames. Sends what is queued in order, straight from the
// caller's memory; asks the sink where each arriving payload goes, so that it lands there without a
// copy. Never waits: it moves what the socket takes and has. Confined to its owner's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "core/values/dtype.h"

namespace ds::detail {

enum class FrameKind : uint8_t {
  kData = 1,  // of a collective
  kMessage,   // of a send
  kTaken,     // one message was received
  kLeft,      // the sender's end of the group is gone
  kFailed,    // the sender's end of the group has failed; the payload says why
  kProbe,     // nothing: its acknowledgement shows that the connection still carries something
};

struct Frame {  // the head of a frame, as it travels
  uint32_t magic = 0x4d415246;
  FrameKind kind = FrameKind::kData;
  DType dtype = DType::kU8;  // of a message
  uint16_t zero = 0;
  uint64_t group = 0;
  uint64_t sequence = 0;  // of the collective in its group
  int64_t numel = 0;      // of a message
  uint64_t bytes = 0;     // of the payload
};
static_assert(sizeof(Frame) == 40, "a frame has no padding");

// Why this cannot be a frame of ours; empty if it can.
std::string frame_error(const Frame& frame);

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Returns where the payload goes: frame.bytes of memory, or null to drop it.
  virtual std::byte* begin_frame(int peer, const Frame& frame) = 0;
  virtual void end_frame(int peer) = 0;
};

struct SendTicket {
  int peer = 0;         // in the group
  int* open = nullptr;  // lowered by finish()
  bool done = false;    // the data are out of the caller's memory
  void finish() {
    done = true;
    --*open;
  }
};

class TcpLink {
 public:
  TcpLink(Fd socket, int peer, FrameSink& sink);
  TcpLink(const TcpLink&) = delete;  // one end of one connection
  TcpLink& operator=(const TcpLink&) = delete;

  // The data stay the caller's until the ticket is done or disowned.
  void enqueue(const Frame& frame, const std::byte* data, SendTicket* ticket);
  void enqueue_copy(const Frame& frame, const std::byte* data);
  // From here on the ticket's data are not read any more: what has begun to travel is copied.
  void disown(const SendTicket* ticket);
  // The rest of the arriving payload is dropped.
  void drop_payload() { target_ = nullptr; }

  void write_some();
  void read_some();

  int fd() const { return socket_.get(); }
  bool wants_write() const { return !queue_.empty() && !closed() && !write_broken_; }
  bool closed() const { return !why_closed_.empty(); }
  bool broken() const { return broken_; }  // closed by an error of the network, not by the peer
  const std::string& why_closed() const { return why_closed_; }
  void close(const std::string& why);
  uint64_t bytes_moved() const { return bytes_in_ + bytes_out_ - bytes_probing_; }
  // Whether the peer's host has everything but farewells and probes.
  bool delivered() const;
  void shut_writing();

 private:
  struct Outgoing {
    Frame frame;
    const std::byte* data;
    SendTicket* ticket;
    size_t done;  // of head and payload together
    std::vector<std::byte> copy;
  };
  void push(Outgoing out);
  void advance_queue(size_t bytes);
  void take(const std::byte* bytes, size_t count);
  void take_head(const std::byte*& bytes, size_t& count);
  void finish_payload();

  const Fd socket_;
  const int peer_;
  FrameSink& sink_;
  std::string why_closed_;
  bool broken_ = false;
  bool write_broken_ = false;  // what still arrives is read all the same
  std::deque<Outgoing> queue_;
  uint64_t bytes_in_ = 0;
  uint64_t bytes_out_ = 0;
  uint64_t bytes_probing_ = 0;    // of those: probes, which bring nobody further
  uint64_t bytes_queued_ = 0;     // ever
  uint64_t bytes_important_ = 0;  // of those, up to the last frame that somebody waits for
  Frame head_;
  size_t head_bytes_ = 0;  // of head_ that have arrived
  bool in_payload_ = false;
  std::byte* target_ = nullptr;
  size_t payload_left_ = 0;
  std::vector<std::byte> staging_;
};

}  // namespace ds::detail
