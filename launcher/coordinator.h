// The launcher's end of the control plane: a gRPC server that turns what ranks say into events for the
// launcher's loop, and the loop's answers into replies and commands. It checks who speaks (token,
// epoch, build) and decides nothing else. It listens nowhere: a rank's connection is a socket pair
// whose other end the rank inherited, so there is no address for anyone else to find.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "launcher/fd.h"
#include "launcher/membership.h"
#include "proto/control.pb.h"

namespace ds {

struct JoinEvent {
  uint64_t ticket = 0;  // answer with admit() or refuse()
  control::JoinRequest request;
};
struct JoinRefused {  // one of ours, but of another build or job
  std::string reason;
};
struct AttendanceEnded {};  // the rank closed its stream, or its connection broke

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
  };

  explicit Coordinator(const Options& options);
  Coordinator(const Coordinator&) = delete;  // gRPC holds its service
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();  // cuts every connection

  void adopt(Fd connection);

  int event_fd() const;  // readable while take_events() would return something
  std::vector<RankEvent> take_events();

  void admit(uint64_t ticket, const control::JobPlan& plan);
  void refuse(uint64_t ticket, const std::string& reason);
  // To every rank that attends, and to those that will.
  void send_to_all(control::CommandMessage::Kind command);

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace ds
