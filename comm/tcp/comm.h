// TcpComm: collectives over TCP between CPU ranks on different hosts. Every rank listens on an
// address that it was given and tells the others its endpoint; then each pair shares one
// connection, on which both have proved that they know the secret of this epoch. Data move in the
// clear: what is private belongs on a private network.
//
// Sums are made by the reduction that all CPU transports use, so the bits equal those of shared
// memory. Before a call ends on any rank, all have compared what they call: a different operation,
// size or dtype is a CommError that names both sides. A closed connection is noticed at once,
// silence when the timeout is over. Groups that are split off use the same connections. memory() is
// the heap.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/contract/communicator.h"
#include "comm/contract/link_board.h"
#include "core/files/file.h"
#include "core/text/secrecy.h"

namespace ds {

// This rank can be reached here. It is opened before the ranks know each other, and closed once
// they are connected. It accepts no connection by itself.
class TcpListener {
 public:
  TcpListener() = default;  // listens nowhere
  // On a free port of `address`, a literal address of one interface of this host. Throws
  // ConfigError for names and for addresses that mean all interfaces, CommError where it cannot
  // listen.
  explicit TcpListener(const std::string& address);

  bool listening() const { return socket_.valid(); }
  const std::string& endpoint() const { return endpoint_; }  // "10.0.0.1:4711", "[fd00::1]:4711"
  int fd() const { return socket_.get(); }

 private:
  Fd socket_;
  std::string endpoint_;
};

// What a rank is told about its epoch.
struct TcpWorld {
  int rank = 0;
  int size = 1;
  int64_t epoch = 1;
  std::vector<std::string> endpoints = {};  // of every rank, in rank order
  std::string secret = {};                  // 32 random bytes that only ranks of this epoch have

  ~TcpWorld() { wipe(secret); }
};

struct TcpOptions {
  std::chrono::milliseconds timeout{30'000};     // longest silence of the peers inside one call
  std::chrono::milliseconds rendezvous{30'000};  // until all have met; at most the timeout
  std::chrono::milliseconds patience{10'000};    // with whoever connects and proves nothing
  // Is told of connections that carry nothing; null: nobody is.
  std::shared_ptr<LinkBoard> board = nullptr;
};

// This rank's end of the world. Collective. Throws CommError when the ranks do not find each other
// in time; a stranger that connects is dropped and disturbs nobody.
std::unique_ptr<Communicator> open_tcp_group(TcpListener listener, const TcpWorld& world,
                                             const TcpOptions& options = {});

}  // namespace ds
