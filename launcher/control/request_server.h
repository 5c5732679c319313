// Takes the connections of a listening socket, reads one request from each, replies and hangs up.
// Never waits: requests are read, and replies written, as the poll loop comes round; who is slow is
// told so, if there are words for it, and dropped. Refuses to know what a request looks like and
// what is asked.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "launcher/decide/text/clock_time.h"

namespace ds {

class RequestServer {
 public:
  struct Limits {
    size_t connections = 8;  // at once; more wait in the kernel's queue
    size_t request_bytes = 64 << 10;
    Time patience = std::chrono::seconds(5);  // from the connection to the reply's last byte
  };
  // Whether this connection is listened to at all.
  using Admit = std::function<bool(int connection)>;
  // `listener`: bound, listening and not blocking. `admit` may be empty: everybody.
  RequestServer(Fd listener, const Limits& limits, Admit admit);

  void add_poll_descriptors(std::vector<pollfd>& out) const;
  // What may follow what has come: more; nothing because it is longer than is allowed, because the
  // caller has sent all, or because its time is over.
  enum class Rest : uint8_t { kMayCome, kTooLong, kEnded, kTooLate };
  // All of the reply to what has come so far. Nothing while more has to come; if none may, the
  // caller is hung up on without a word. Must not throw.
  using Reply = std::function<std::optional<std::string>(std::string_view so_far, Rest rest)>;
  void serve(Time now, const Reply& reply);

  size_t connections() const { return callers_.size(); }

 private:
  struct Caller {
    Fd fd;
    Time until{};
    std::string request{};
    std::string reply{};  // what is left of it
    bool answered = false;
    bool lingers = false;  // the reply is sent, and what still comes is read so that it is not lost
  };
  void accept_callers(Time now);
  bool keep(Caller& caller, const Reply& reply) const;  // false: it is over
  bool read_request(Caller& caller, const Reply& reply) const;
  static bool answer(Caller& caller, const Reply& reply, Rest rest);  // false: not a word
  static void reply_late(Caller& caller, const Reply& reply);

  const Limits limits_;
  const Fd listener_;
  const Admit admit_;
  Time deaf_until_{};
  std::list<Caller> callers_;
};

}  // namespace ds
