#include "launcher/agents/host_rendezvous.h"

#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "core/files/poll_time.h"
#include "core/status/error.h"
#include "core/tasks/wake_fd.h"
#include "core/text/secrecy.h"
#include "core/text/socket_address.h"
#include "launcher/agents/rendezvous_file.h"
#include "launcher/control/network_door.h"
#include "launcher/control/peer_dial.h"
#include "launcher/control/tls_stream.h"
#include "launcher/process/credentials.h"
#include "proto/build_info.h"

namespace ds {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kConnectLimit{2000};
constexpr milliseconds kRetryPeriod{50};

// What came through the door, until the loop below takes it.
class Arrivals {
 public:
  void push(Fd connection) {
    const std::scoped_lock lock(mutex_);
    arrived_.push_back(std::move(connection));
    eventfd_write(wake_.get(), 1);
  }
  std::vector<Fd> take() {
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
    const std::scoped_lock lock(mutex_);
    return std::exchange(arrived_, {});
  }
  int fd() const { return wake_.get(); }

 private:
  const Fd wake_ = make_wake_fd();
  std::mutex mutex_;  // guards arrived_
  std::vector<Fd> arrived_;
};

NetworkDoor::Options door_options(const RendezvousOptions& options, std::string_view name) {
  NetworkDoor::Options out{options.addresses, 0, std::string(name), {}};
  out.rules.max_acquaintances += static_cast<size_t>(std::max(0, options.processes));
  return out;
}

std::string fresh_token() {
  std::string bytes = random_bytes(kRendezvousTokenDigits / 2);
  std::string digits = to_hex(bytes);
  wipe(bytes);
  return digits;
}

class HostRendezvous {
 public:
  explicit HostRendezvous(const RendezvousOptions& options)
      : options_(options),
        place_{.endpoints = {},
               .server_name = random_server_name(),
               .authority = options.authority->certificate(),
               .token = fresh_token()},
        context_(TlsStream::server_context(
            options.authority->certify_coordinator({}, place_.server_name))),
        door_(door_options(options, place_.server_name)) {
    place_.endpoints = door_.endpoints();
    file_.emplace(options.file, place_);
    door_.open([this](Fd connection) { arrivals_.push(std::move(connection)); });
  }
  HostRendezvous(const HostRendezvous&) = delete;  // the door's thread holds `this`
  HostRendezvous& operator=(const HostRendezvous&) = delete;
  ~HostRendezvous() { door_.close(); }

  std::vector<std::unique_ptr<HostLink>> wait_for_all() {
    const auto deadline = Clock::now() + options_.limit;
    while (represented_ < options_.processes) {
      if (Clock::now() >= deadline) refuse_missing();
      wait(deadline);
      admit();
      hear();
    }
    std::vector<std::unique_ptr<HostLink>> links;
    for (auto& [rank, link] : met_) links.push_back(std::move(link));
    return links;
  }

 private:
  struct Caller {
    std::string peer;
    std::unique_ptr<ByteChannel> channel;  // until the token has come
    std::string word;                      // of the token what has
    std::unique_ptr<HostLink> link;        // from then on
  };

  void wait(Clock::time_point deadline) {
    std::vector<pollfd> watched{{arrivals_.fd(), POLLIN, 0}, {options_.interrupt_fd, POLLIN, 0}};
    for (const Caller& caller : callers_) {
      caller.link ? caller.link->add_poll_descriptors(watched)
                  : caller.channel->add_poll_descriptors(watched);
    }
    for (const auto& [rank, link] : met_) link->add_poll_descriptors(watched);
    poll(watched.data(), watched.size(), std::min(1000, poll_time_until(deadline)));
    if (watched[1].revents != 0) {
      throw Error(ExitCode::kClusterUnusable,
                  "stopped while the other hosts were waited for; nothing was started");
    }
  }

  void admit() {
    for (Fd& connection : arrivals_.take()) {
      std::string peer;
      try {
        peer = peer_address(connection.get()).endpoint();
      } catch (const CommError&) {
        continue;  // gone already
      }
      callers_.push_back(
          {peer, std::make_unique<TlsStream>(std::move(connection), context_), "", nullptr});
    }
  }

  void hear() {
    const auto now = Clock::now();
    const auto ignore = [](const agent::FromAgent&) {};
    for (auto& [rank, link] : met_) {
      link->pump(now, ignore);
      if (!link->lost().empty()) {
        throw Error(ExitCode::kClusterUnusable,
                    fmt::format("host {}, of rank {}, went again while others were waited for: {}",
                                link->host(), rank, link->lost()));
      }
    }
    for (Caller& caller : callers_) {
      if (caller.channel) hear_token(caller);
      if (!caller.link) continue;
      caller.link->pump(now, ignore);
      if (caller.link->ready()) welcome(caller);
    }
    std::erase_if(callers_, [](const Caller& caller) {  // strangers, whom nobody misses
      return !caller.channel && (!caller.link || !caller.link->lost().empty());
    });
  }

  // Nothing is said to anyone before. Who is wrong or goes is cut, which counts at the door.
  void hear_token(Caller& caller) {
    const std::string& token = place_.token;
    const bool open = caller.channel->pump([&](std::string_view bytes) {
      append_secret(caller.word, bytes.substr(0, token.size() + 1));
      if (caller.word.size() > token.size()) caller.channel->close();
    });
    if (open && caller.word.size() < token.size()) return;
    if (open && equal_secrets(caller.word, token)) {
      caller.link = std::make_unique<HostLink>(std::move(caller.channel));
    }
    caller.channel.reset();
    wipe(caller.word);
  }

  void welcome(Caller& caller) {
    const agent::Ready& ready = *caller.link->ready();
    door_.proven("ip:" + caller.peer);
    if (ready.build_id() != build_id()) {
      throw Error(ExitCode::kClusterUnusable,
                  fmt::format("host {} has another build of dslaunch: {} there, {} here",
                              ready.host(), ready.build_id(), build_id()));
    }
    if (ready.slots_size() < 1 || met_.contains(ready.start_rank())) {
      throw Error(
          ExitCode::kClusterUnusable,
          fmt::format("two dslaunch, the second on host {}, say that they are rank {} of this "
                      "job; another job of the same name uses {}",
                      ready.host(), ready.start_rank(), options_.file.string()));
    }
    represented_ += ready.slots_size();
    const bool name_is_taken = std::ranges::any_of(
        met_, [&](const auto& entry) { return entry.second->host() == ready.host(); });
    caller.link->set_host(name_is_taken ? fmt::format("{}.{}", ready.host(), ready.start_rank())
                                        : ready.host());
    met_[ready.start_rank()] = std::move(caller.link);
  }

  [[noreturn]] void refuse_missing() const {
    throw Error(
        ExitCode::kClusterUnusable,
        fmt::format("no word from {} of {} dslaunch of other hosts within {} s; they look for {}, "
                    "which has to be in a folder that all hosts share, and dial {}; --master-addr "
                    "names an address that they reach, and --hostfile with --launcher ssh needs "
                    "neither",
                    options_.processes - represented_, options_.processes, options_.limit.count(),
                    options_.file.string(), fmt::join(door_.endpoints(), ", ")));
  }

  const RendezvousOptions options_;
  RendezvousPlace place_;
  const TlsStream::Context context_;
  Arrivals arrivals_;
  NetworkDoor door_;
  std::optional<RendezvousFile> file_;
  std::vector<Caller> callers_;
  std::map<int, std::unique_ptr<HostLink>> met_;
  int represented_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<HostLink>> meet_hosts(const RendezvousOptions& options) {
  return HostRendezvous(options).wait_for_all();
}

int join_rendezvous(const std::filesystem::path& file, const AgentContext& context,
                    const DialledAgent& self, seconds limit) {
  const auto deadline = Clock::now() + limit;
  ::signal(SIGPIPE, SIG_IGN);  // a launcher that goes is seen, and ends nobody
  std::string why;
  do {
    FoundRendezvous found = read_rendezvous_file(file);
    why = found.why;
    for (const std::string& endpoint :
         found.place ? found.place->endpoints : std::vector<std::string>()) {
      PeerDial dial = std::move(dial_peers({endpoint}, kConnectLimit).front());
      if (!dial.error.empty()) {
        why = fmt::format("nobody answers at {}: {}", endpoint, dial.error);
        continue;
      }
      AgentContext here = context;
      here.address = own_address(dial.connection.get()).host();
      TlsStream launcher(std::move(dial.connection),
                         TlsStream::client_context(found.place->authority),
                         found.place->server_name);
      const std::optional<int> code = run_dialled_agent(here, self, launcher, found.place->token);
      if (code) return *code;
      why = fmt::format("{} is not the launcher of this job: {}", endpoint,
                        launcher.problem().empty() ? "it says nothing" : launcher.problem());
    }
    poll(nullptr, 0, static_cast<int>(kRetryPeriod.count()));
  } while (Clock::now() < deadline);
  throw Error(ExitCode::kClusterUnusable,
              fmt::format("rank {} did not meet the first dslaunch of its job within {} s: {}",
                          self.start_rank, limit.count(), why));
}

}  // namespace ds
