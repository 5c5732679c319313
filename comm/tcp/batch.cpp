#include "comm/tcp/batch.h"

#include <algorithm>

namespace ds::detail {

TcpBatch::~TcpBatch() {
  const auto held = wire_.lock();
  if (open_ == 0) return;
  for (const SendTicket& ticket : sends_) {
    if (!ticket.done) wire_.cancel(group_, ticket);
  }
  for (const ReceiveTicket& ticket : receives_) {
    if (!ticket.done) wire_.cancel(group_, ticket);
  }
}

void TcpBatch::send(int to, const Frame& frame, const std::byte* data) {
  const auto held = wire_.lock();
  ++open_;
  SendTicket& ticket = sends_.emplace_back();
  ticket.peer = to;
  ticket.open = &open_;
  wire_.send(group_, to, frame, data, ticket);
}

const ReceiveTicket& TcpBatch::receive(int from, TcpStream stream, const Frame& frame,
                                       std::byte* data) {
  const auto held = wire_.lock();
  ++open_;
  ReceiveTicket& ticket = receives_.emplace_back();
  ticket.peer = from;
  ticket.data = data;
  ticket.frame = frame;
  ticket.open = &open_;
  wire_.receive(group_, stream, ticket);
  return ticket;
}

const ReceiveTicket* TcpBatch::wrong() const {
  for (const ReceiveTicket& ticket : receives_) {
    if (ticket.wrong) return &ticket;
  }
  return nullptr;
}

std::vector<int> TcpBatch::awaited() const {
  std::vector<int> members;
  for (const ReceiveTicket& ticket : receives_) {
    if (!ticket.done) members.push_back(ticket.peer);
  }
  if (members.empty()) {
    for (const SendTicket& ticket : sends_) {
      if (!ticket.done) members.push_back(ticket.peer);
    }
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

}  // namespace ds::detail
