// Other hosts reach the coordinator through the network door: TCP sockets on literal addresses. A
// thread takes connections, looks at how they begin, passes them on with nothing taken away, and
// cuts those that ConnectionRules does not admit. Most of a flood ends here, unseen by the rest of
// the launcher. The door does not know what is spoken after the beginning.
#pragma once

#include <sys/epoll.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/files/file.h"
#include "launcher/control/connection_rules.h"

namespace ds {

class NetworkDoor {
 public:
  struct Options {
    std::vector<std::string> addresses;  // literal IPv4 or IPv6
    int port = 0;                        // 0: any free one, for each address
    // Whoever shows it as the server name of its TLS hello is no stranger: a hint and no proof.
    std::string server_name;
    ConnectionRules::Options rules;
  };
  using Enter = std::function<void(Fd connection)>;

  // Binds and listens; connections wait until open(). Throws UsageError for what is not a literal
  // address of one interface (a name, a wildcard, a scope), Error(kClusterUnusable) if the port is
  // taken (naming who holds it) or the address is not this machine's.
  explicit NetworkDoor(const Options& options);
  NetworkDoor(const NetworkDoor&) = delete;  // the thread holds `this`
  NetworkDoor& operator=(const NetworkDoor&) = delete;
  ~NetworkDoor();

  // "10.0.0.1:4242", "[fd00::1]:4242": one for each address, in their order.
  const std::vector<std::string>& endpoints() const { return endpoints_; }

  void open(Enter enter);
  void close();  // nobody comes in any more, nobody is cut

  // What was found out about the connection that gRPC calls `peer`. Thread-safe.
  void proven(const std::string& peer);
  void refused(const std::string& peer);
  uint64_t failures() const;

 private:
  struct Client {
    std::string name;  // "10.0.0.2:5555"
    Fd connection;     // once passed on a second descriptor of it: to see it end, and to end it
    bool passed_on = false;
  };

  void serve();
  int timeout_ms() const;
  void take(const epoll_event& event, std::vector<Fd>& admitted);
  void accept_waiting(int listener, std::vector<Fd>& admitted);
  void look_at(uint64_t id, uint32_t events, std::vector<Fd>& admitted);
  void greet(uint64_t id, Client& client, std::string_view server_name, std::vector<Fd>& admitted);
  void cut_overdue(std::vector<Fd>& admitted);
  void make_room();
  void cut(uint64_t id);
  template <class Action>
  void with_client(const std::string& peer, const Action& action);

  const std::string server_name_;
  std::vector<std::string> endpoints_;
  std::vector<Fd> listeners_;
  Fd wake_;
  Fd epoll_;
  Enter enter_;
  mutable std::mutex mutex_;  // guards everything below
  ConnectionRules rules_;
  std::map<uint64_t, Client> clients_;
  uint64_t next_id_ = 1;
  bool closing_ = false;
  std::thread thread_;  // last: uses everything above
};

}  // namespace ds
