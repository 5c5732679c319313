// The launcher's end of the control plane: a gRPC server that turns what ranks say into events for
// the launcher's loop, and the loop's answers into replies and commands. It checks who speaks
// (token, epoch, build; over a network also its certificate) and decides nothing else. Ranks of
// this machine speak through socket pairs whose other ends they inherited. Unless it is given
// addresses it listens nowhere, so that there is nothing for anyone else to find.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/files/file.h"
#include "launcher/control/connection_rules.h"
#include "launcher/control/job_authority.h"
#include "launcher/decide/watch/membership.h"
#include "proto/control.pb.h"

namespace ds {

struct JoinEvent {
  uint64_t ticket = 0;  // answer with admit() or refuse()
  control::JoinRequest request;
};
struct JoinRefused {  // one of ours, but of another build or job
  std::string reason;
};
struct AttendanceEnded {
};  // the rank closed its stream, or its connection broke; it may come again

struct RankEvent {
  int rank = 0;
  int64_t epoch = 0;
  Time at{};  // steady clock
  std::variant<JoinEvent, JoinRefused, control::RankMessage, AttendanceEnded> body;
};

class Coordinator {
 public:
  struct Options {
    int64_t epoch = 1;
    std::vector<std::string> tokens;  // one per rank, each good for one join
    std::string build_id;
    std::string config_digest;
    // For ranks on other hosts: literal addresses of this machine, and who vouches for both ends.
    std::vector<std::string> addresses = {};
    int port = 0;                             // 0: any free one, for each address
    const JobAuthority* authority = nullptr;  // asked in the constructor only
    ConnectionRules::Options rules = {};
  };

  // Throws what NetworkDoor throws.
  explicit Coordinator(const Options& options);
  Coordinator(const Coordinator&) = delete;  // gRPC holds its service
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();  // cuts every connection

  // Returns where ranks dial it, "10.0.0.1:4242": one for each of the addresses, in their order.
  // Each rank needs the authority's certificate and what its certify_rank() gives for this epoch.
  const std::vector<std::string>& endpoints() const;
  // As what they have to address it there, so that the door knows them from strangers; empty
  // without addresses.
  const std::string& name() const;
  // Connections cut because nobody proved to be a rank of this epoch on them.
  uint64_t strangers_turned_away() const;

  void adopt(Fd connection);

  int event_fd() const;  // readable while take_events() would return something
  // What was taken is acknowledged to the ranks, which keep their reports until then; steps only
  // when they are written, so that they outlive this process, or with the rank's last report.
  std::vector<RankEvent> take_events();
  void steps_are_written();  // all that were taken

  void admit(uint64_t ticket, const control::JobPlan& plan);
  void refuse(uint64_t ticket, const std::string& reason);
  // To every rank that attends, and to those that will.
  void send_to_all(const control::CommandMessage& command);
  void send_to_all(control::CommandMessage::Kind kind);

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace ds
