// A coordinator that listens on this machine's loopback address, as for ranks on other hosts.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/control/coordinator.h"
#include "proto/build_info.h"
#include "rankd/control/session.h"
#include "tests/launcher/finishing.h"
#include "tests/support/catch.h"

namespace ds {

class TlsPlane {
 public:
  static constexpr int64_t kEpoch = 7;

  explicit TlsPlane(int ranks = 2, const std::string& address = "127.0.0.1",
                    const ConnectionRules::Options& rules = {})
      : authority_(JobAuthority::WallClock::now()),
        coordinator_({.epoch = kEpoch,
                      .tokens = make_tokens(ranks),
                      .build_id = build_id(),
                      .config_digest = "digest",
                      .addresses = {address},
                      .port = 0,
                      .authority = &authority_,
                      .rules = rules}) {}

  Coordinator& coordinator() { return coordinator_; }
  const JobAuthority& authority() const { return authority_; }
  std::string endpoint() const { return coordinator_.endpoints().front(); }
  static std::string token_of(int rank) { return fmt::format("token of rank {}", rank); }

  // What a good rank is given.
  Bootstrap bootstrap(int rank) const {
    const TlsIdentity identity = authority_.certify_rank(kEpoch, rank);
    Bootstrap out;
    out.coordinator_address = endpoint();
    out.token = token_of(rank);
    out.rank = rank;
    out.epoch = kEpoch;
    out.config_digest = "digest";
    out.ca_certificate = authority_.certificate();
    out.certificate = identity.certificate;
    out.private_key = identity.private_key;
    out.coordinator_name = coordinator_.name();
    return out;
  }

  // Joins while the coordinator's side answers.
  JobPlan join(ControlClient& client) {
    JobPlan plan;
    std::string error;
    std::thread rank_thread([&] {
      try {
        plan = client.join();
      } catch (const Error& refusal) {
        error = refusal.what();
      }
    });
    control::JobPlan answer;
    answer.set_rank(expect<JoinEvent>().first.rank);
    answer.set_world_size(2);
    coordinator_.admit(last_ticket_, answer);
    rank_thread.join();
    REQUIRE(error.empty());
    return plan;
  }

  // A good rank still gets in.
  void check_open(int rank) {
    const std::unique_ptr<ControlClient> client = connect_control(bootstrap(rank));
    CHECK(join(*client).rank == rank);
  }

  // The next event of the wanted kind; others before it are dropped.
  template <class Body>
  std::pair<RankEvent, Body> expect() {
    while (true) {
      while (!seen_.empty()) {
        const RankEvent event = std::move(seen_.front());
        seen_.erase(seen_.begin());
        if (const Body* body = std::get_if<Body>(&event.body)) {
          note(*body);
          return {event, *body};
        }
      }
      pollfd ready{coordinator_.event_fd(), POLLIN, 0};
      REQUIRE(poll(&ready, 1, 30'000) == 1);
      seen_ = coordinator_.take_events();
    }
  }

  int64_t expect_step() {
    for (;;) {
      const control::RankMessage message = expect<control::RankMessage>().second;
      if (message.has_step()) return message.step().step();
    }
  }

  // What comes in the next moment is kept for expect().
  void pump() {
    pollfd ready{coordinator_.event_fd(), POLLIN, 0};
    if (poll(&ready, 1, 10) == 0) return;
    for (RankEvent& event : coordinator_.take_events()) seen_.push_back(std::move(event));
  }
  bool finish(ControlClient& client) {
    return finish_while([this] { pump(); }, client, ExitCode::kDone, ErrorOrigin::kNone);
  }

 private:
  static std::vector<std::string> make_tokens(int ranks) {
    std::vector<std::string> tokens;
    for (int rank = 0; rank < ranks; ++rank) {
      tokens.push_back(token_of(rank));
    }
    return tokens;
  }
  void note(const JoinEvent& join) { last_ticket_ = join.ticket; }
  template <class Other>
  void note(const Other&) {}

  const JobAuthority authority_;
  Coordinator coordinator_;
  std::vector<RankEvent> seen_;
  uint64_t last_ticket_ = 0;
};

}  // namespace ds
