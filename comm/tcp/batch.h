// Messages of one call that are waited for together. What is still open when the batch dies is
// taken back: no byte is read from or written to the caller's memory after that. Takes the wire's
// lock where it is not said that the caller holds it.
#pragma once

#include <deque>

#include "comm/tcp/wire.h"

namespace ds::detail {

class TcpBatch {
 public:
  TcpBatch(TcpWire& wire, TcpGroupState& group) : wire_(wire), group_(group) {}
  ~TcpBatch();
  TcpBatch(const TcpBatch&) = delete;  // the wire holds addresses of its tickets
  TcpBatch& operator=(const TcpBatch&) = delete;

  void send(int to, const Frame& frame, const std::byte* data);
  const ReceiveTicket& receive(int from, TcpStream stream, const Frame& frame, std::byte* data);

  // Under the wire's lock:
  bool done() const { return open_ == 0; }
  // The first message that was not the expected one; null if there is none.
  const ReceiveTicket* wrong() const;
  // Members that keep the batch open; the senders to us, if there are any.
  std::vector<int> awaited() const;

 private:
  TcpWire& wire_;
  TcpGroupState& group_;
  int open_ = 0;
  std::deque<SendTicket> sends_;  // tickets do not move
  std::deque<ReceiveTicket> receives_;
};

}  // namespace ds::detail
