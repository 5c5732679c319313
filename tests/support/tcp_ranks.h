// Groups over TCP on this machine's loopback: listeners whose endpoints are known before any rank
// starts, and worlds of threads or processes that meet over them.
#pragma once

#include "comm/tcp/comm.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"

namespace ds::test {

// What every rank of a world would be told, and the listeners that it has opened for that.
struct TcpRanks {
  explicit TcpRanks(int size, const std::string& address = "127.0.0.1") : world{.size = size} {
    for (int r = 0; r < size; ++r) {
      listeners.emplace_back(address);
      world.endpoints.push_back(listeners.back().endpoint());
    }
    world.secret = std::string(32, 's');
  }
  TcpWorld of(int rank) const {
    TcpWorld mine = world;
    mine.rank = rank;
    return mine;
  }
  // The caller's rank. Another process that has a copy of its listener should close it.
  std::unique_ptr<Communicator> open(int rank, const TcpOptions& options = {}) {
    TcpListener own = std::move(listeners[static_cast<size_t>(rank)]);
    return open_tcp_group(std::move(own), of(rank), options);
  }

  std::vector<TcpListener> listeners;
  TcpWorld world;
};

inline std::vector<std::unique_ptr<Communicator>> make_tcp_group(int size,
                                                                 const TcpOptions& options = {}) {
  TcpRanks ranks(size);
  std::vector<std::unique_ptr<Communicator>> group(static_cast<size_t>(size));
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        group[static_cast<size_t>(r)] = ranks.open(r, options);
      } catch (const std::exception& e) {
        errors[static_cast<size_t>(r)] = e.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const std::string& error : errors) {
    if (!error.empty()) throw InternalError(error);
  }
  return group;
}

inline std::vector<ProcessResult> run_tcp_processes(int size,
                                                    const std::function<void(Communicator&)>& body,
                                                    const TcpOptions& options = {}) {
  auto ranks = std::make_shared<TcpRanks>(size);
  std::vector<std::function<void()>> bodies;
  for (int r = 0; r < size; ++r) {
    bodies.emplace_back([=] {
      for (int other = 0; other < size; ++other) {
        if (other != r) ranks->listeners[static_cast<size_t>(other)] = TcpListener();
      }
      const auto comm = ranks->open(r, options);
      body(*comm);
    });
  }
  return run_processes(bodies);
}

}  // namespace ds::test
