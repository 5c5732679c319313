#include "launcher/control/coordinator.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "core/status/error.h"
#include "core/tasks/task_limits.h"
#include "core/tasks/wake_fd.h"
#include "core/text/secrecy.h"
#include "launcher/control/control_tls.h"
#include "launcher/control/network_door.h"
#include "launcher/process/credentials.h"
#include "proto/build_info.h"
#include "proto/control.grpc.pb.h"
#include "proto/grpc_threads.h"

namespace ds {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;
constexpr int kMaxMetadataBytes = 16 << 10;
constexpr int kMaxStreams = 8;  // per connection; a rank needs two
// All connections together get this much memory, and more for each rank. Past that gRPC resets
// calls, so that no length a rank may claim for a message fills the host.
constexpr size_t kMaxMemory = 64 << 20;
constexpr size_t kMaxMemoryPerRank = 256 << 10;
constexpr int kHandshakeMs = 10'000;
constexpr int kKeepAliveMs = 2'000;  // twice this without an answer, and the connection is gone
constexpr size_t kSecretBytes = 32;

Time steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

// Events on their way to the launcher's loop. Thread-safe.
class EventQueue {
 public:
  void push(RankEvent event) {
    const std::scoped_lock lock(mutex_);
    events_.push_back(std::move(event));
    eventfd_write(wake_.get(), 1);
  }
  std::vector<RankEvent> take() {
    const std::scoped_lock lock(mutex_);
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
    return std::exchange(events_, {});
  }
  int fd() const { return wake_.get(); }

 private:
  const Fd wake_ = make_wake_fd();
  std::mutex mutex_;  // guards events_
  std::vector<RankEvent> events_;
};

}  // namespace

class Coordinator::Service final : public control::Control::CallbackService {
 public:
  explicit Service(const Options& options) : options_(options) {
    if (!options.addresses.empty()) {
      DS_CHECK(options.authority != nullptr, "coordinator: has addresses but no authority");
      job_ = options.authority->job();
      name_ = random_server_name();
      NetworkDoor::Options door{options.addresses, options.port, name_, options.rules};
      door.rules.max_strangers += options.tokens.size();  // all ranks may come at the same moment
      door.rules.max_acquaintances += options.tokens.size();
      door_.emplace(door);
    }
    start_server();
    if (door_) {
      door_->open([this](Fd connection) {
        ExternalConnectionAcceptor::NewConnectionParameters parameters;
        parameters.fd = connection.release();
        acceptor_->HandleNewConnection(&parameters);
      });
    }
  }

  ~Service() override {
    if (door_) {
      door_->close();  // its thread speaks to the server
    }
    {
      const std::scoped_lock lock(mutex_);
      for (auto& [ticket, join] : pending_joins_) {
        join.reactor->Finish({grpc::StatusCode::UNAVAILABLE, "the launcher is ending"});
      }
      pending_joins_.clear();
    }
    server_->Shutdown(std::chrono::system_clock::now());  // cancels the streams
    server_->Wait();
    wipe(options_.tokens);
    for (auto& [rank, session] : sessions_) wipe(session.token);
  }

  void adopt(Fd connection) {
    fcntl(connection.get(), F_SETFL, fcntl(connection.get(), F_GETFL) | O_NONBLOCK);
    grpc::AddInsecureChannelFromFd(server_.get(), connection.release());
  }

  const NetworkDoor* door() const { return door_ ? &*door_ : nullptr; }
  const std::string& name() const { return name_; }

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const control::JoinRequest* request,
                                 control::JoinReply* reply) override;
  grpc::ServerBidiReactor<control::RankMessage, control::CommandMessage>* Attend(
      grpc::CallbackServerContext* context) override;

  void answer(uint64_t ticket, const grpc::Status& status, const control::JobPlan* plan);
  void send_to_all(const control::CommandMessage& command);
  std::vector<RankEvent> take_events();
  void steps_are_written();
  int event_fd() const { return events_.fd(); }

 private:
  class Attendance;
  struct PendingJoin {
    grpc::ServerUnaryReactor* reactor = nullptr;
    control::JoinReply* reply = nullptr;
    int rank = 0;
  };

  using ExternalConnectionAcceptor = grpc::experimental::ExternalConnectionAcceptor;

  void start_server();
  void acknowledge_taken();  // under mutex_
  bool may_speak_for(const grpc::CallbackServerContext& context,
                     const control::Identity& who) const;
  void judge(const grpc::CallbackServerContext& context, bool is_a_rank);
  grpc::Status check_join(const control::JoinRequest& request);
  bool enter(const control::RankMessage& hello, Attendance& attendance);
  bool is_new(int rank, uint64_t sequence);
  void leave(Attendance& attendance);

  Options options_;  // of the tokens those that are not used up
  std::string job_;
  std::string name_;
  EventQueue events_;
  std::optional<NetworkDoor> door_;  // before the server, whose threads speak to it
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ExternalConnectionAcceptor> acceptor_;
  std::mutex mutex_;  // guards everything below; taken before an Attendance's own
  std::set<int> used_tokens_;
  struct Session {
    std::string token;
    uint64_t heard = 0;           // the newest report that came
    bool awaits_writing = false;  // steps among what was taken
    uint64_t taken = 0;           // by the launcher's loop
    uint64_t acknowledged = 0;
  };
  std::map<int, Session> sessions_;
  std::map<uint64_t, PendingJoin> pending_joins_;
  uint64_t next_ticket_ = 1;
  std::map<int, Attendance*> attendances_;
  std::vector<control::CommandMessage> commands_;  // all so far, for those who come later
};

// One rank's stream. gRPC calls the On... functions, one at a time for reads and one for writes.
class Coordinator::Service::Attendance final
    : public grpc::ServerBidiReactor<control::RankMessage, control::CommandMessage> {
 public:
  Attendance(Service& service, const grpc::CallbackServerContext& context)
      : service_(service), context_(context) {
    StartRead(&message_);
  }

  int rank() const { return rank_; }

  void send(const control::CommandMessage& command) {
    const std::scoped_lock lock(mutex_);
    commands_.push_back(command);
    write_next();
  }

  void acknowledge(uint64_t sequence) {
    const std::scoped_lock lock(mutex_);
    entered_ = true;
    acknowledged_ = sequence;
    write_next();
  }

  // The rank speaks over another stream now.
  void replace() { end({grpc::StatusCode::ABORTED, "another stream has taken its place"}); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      end(grpc::Status::OK);
      return;
    }
    if (rank_ >= 0) {
      if (service_.is_new(rank_, message_.sequence())) {
        service_.events_.push({rank_, epoch_, steady_now(), std::move(message_)});
      }
    } else if (message_.body_case() != control::RankMessage::kHello ||
               !service_.may_speak_for(context_, message_.hello()) ||
               !service_.enter(message_, *this)) {
      service_.judge(context_, false);
      end({grpc::StatusCode::PERMISSION_DENIED, "not a joined rank"});
      return;
    } else {
      service_.judge(context_, true);  // it may have come over a new connection
      rank_ = message_.hello().rank();
      epoch_ = message_.hello().epoch();
    }
    message_.Clear();
    StartRead(&message_);
  }

  void OnWriteDone(bool ok) override {
    const std::scoped_lock lock(mutex_);
    writing_ = false;
    if (ok) {
      write_next();
    }
  }

  void OnCancel() override { end(grpc::Status::CANCELLED); }

  void OnDone() override {
    if (rank_ >= 0) {
      service_.leave(*this);
      service_.events_.push({rank_, epoch_, steady_now(), AttendanceEnded{}});
    }
    delete this;  // gRPC's contract: the reactor owns itself until here
  }

 private:
  void write_next() {
    if (writing_ || ended_ || (commands_.empty() && (!entered_ || told_ == acknowledged_))) return;
    outgoing_.Clear();
    if (!commands_.empty()) {
      outgoing_ = std::move(commands_.front());
      commands_.pop_front();
    }
    outgoing_.set_acknowledged(acknowledged_);
    told_ = acknowledged_;
    writing_ = true;
    StartWrite(&outgoing_);
  }

  void end(const grpc::Status& status) {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(ended_, true)) {
      Finish(status);
    }
  }

  Service& service_;
  const grpc::CallbackServerContext& context_;  // gRPC keeps it until OnDone
  int rank_ = -1;
  int64_t epoch_ = 0;
  control::RankMessage message_;
  std::mutex mutex_;  // guards everything below
  std::deque<control::CommandMessage> commands_;
  bool entered_ = false;
  uint64_t acknowledged_ = 0;
  std::optional<uint64_t> told_;  // of it; the first word says that the rank is heard
  control::CommandMessage outgoing_;
  bool writing_ = false;
  bool ended_ = false;
};

void Coordinator::Service::start_server() {
  require_threads(grpc_threads_of_server(grpc_cores()), "the control server");
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.RegisterService(this);
  if (door_) {
    builder.SetResourceQuota(grpc::ResourceQuota("control").Resize(
        kMaxMemory + kMaxMemoryPerRank * options_.tokens.size()));
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveMs);
    // Ranks probe the connection in the same way; that is not abuse.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kKeepAliveMs / 2);
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        coordinator_credentials(*options_.authority, options_.addresses, name_));
  }
  server_ = builder.BuildAndStart();
  DS_CHECK(server_ != nullptr, "coordinator: gRPC did not start");
}

// A rank speaks for itself alone. Who inherited a socket needs no certificate: nobody else has it.
bool Coordinator::Service::may_speak_for(const grpc::CallbackServerContext& context,
                                         const control::Identity& who) const {
  return !came_by_network(context) ||
         (door_ && certified_as(*context.auth_context(), job_, who.epoch(), who.rank()));
}

void Coordinator::Service::judge(const grpc::CallbackServerContext& context, bool is_a_rank) {
  if (door_) {
    is_a_rank ? door_->proven(context.peer()) : door_->refused(context.peer());
  }
}

grpc::Status Coordinator::Service::check_join(const control::JoinRequest& request) {
  const control::Identity& who = request.identity();
  const bool in_range = who.rank() >= 0 && who.rank() < static_cast<int>(options_.tokens.size());
  if (!in_range || who.epoch() != options_.epoch ||
      !equal_secrets(who.token(), options_.tokens[static_cast<size_t>(who.rank())]) ||
      used_tokens_.contains(who.rank())) {
    return {grpc::StatusCode::PERMISSION_DENIED, "no such rank, epoch and token"};
  }
  used_tokens_.insert(who.rank());
  wipe(options_.tokens[static_cast<size_t>(who.rank())]);
  const auto differs = [&](const char* what, const auto& theirs, const auto& ours) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                        fmt::format("{} differs: rank {} has {}, the launcher has {}", what,
                                    who.rank(), theirs, ours));
  };
  if (request.protocol_version() != kProtocolVersion) {
    return differs("control protocol", request.protocol_version(), kProtocolVersion);
  }
  if (request.build_id() != options_.build_id) {
    return differs("build", request.build_id(), options_.build_id);
  }
  if (request.config_digest() != options_.config_digest) {
    return differs("configuration", request.config_digest(), options_.config_digest);
  }
  return grpc::Status::OK;
}

grpc::ServerUnaryReactor* Coordinator::Service::Join(grpc::CallbackServerContext* context,
                                                     const control::JoinRequest* request,
                                                     control::JoinReply* reply) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const std::scoped_lock lock(mutex_);
  const control::Identity& who = request->identity();
  const grpc::Status status =
      may_speak_for(*context, who)
          ? check_join(*request)
          : grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "not the rank of this certificate");
  judge(*context, status.error_code() != grpc::StatusCode::PERMISSION_DENIED);
  if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
    events_.push({who.rank(), who.epoch(), steady_now(), JoinRefused{status.error_message()}});
  }
  if (!status.ok()) {
    reactor->Finish(status);
    return reactor;
  }
  const uint64_t ticket = next_ticket_++;
  pending_joins_[ticket] = {reactor, reply, who.rank()};
  JoinEvent event{ticket, *request};
  wipe(*event.request.mutable_identity()->mutable_token());  // used up; nobody else need have it
  events_.push({who.rank(), who.epoch(), steady_now(), std::move(event)});
  return reactor;
}

grpc::ServerBidiReactor<control::RankMessage, control::CommandMessage>*
Coordinator::Service::Attend(grpc::CallbackServerContext* context) {
  return new Attendance(*this, *context);  // deletes itself in OnDone
}

void Coordinator::Service::answer(uint64_t ticket, const grpc::Status& status,
                                  const control::JobPlan* plan) {
  const std::scoped_lock lock(mutex_);
  const auto found = pending_joins_.find(ticket);
  if (found == pending_joins_.end()) {
    return;
  }
  const PendingJoin join = found->second;
  pending_joins_.erase(found);
  if (plan != nullptr) {
    std::string session = random_bytes(kSecretBytes);
    *join.reply->mutable_plan() = *plan;
    join.reply->set_session(session);
    sessions_[join.rank] = {.token = std::move(session)};
  }
  join.reactor->Finish(status);
}

// Also where the rank has attended before: its connection broke, whether or not we have noticed.
bool Coordinator::Service::enter(const control::RankMessage& hello, Attendance& attendance) {
  const std::scoped_lock lock(mutex_);
  const control::Identity& who = hello.hello();
  const auto session = sessions_.find(who.rank());
  if (who.epoch() != options_.epoch || session == sessions_.end() ||
      !equal_secrets(who.token(), session->second.token)) {
    return false;
  }
  if (const auto before = attendances_.find(who.rank()); before != attendances_.end())
    before->second->replace();
  attendances_[who.rank()] = &attendance;
  for (size_t i = hello.commands_seen(); i < commands_.size(); ++i) attendance.send(commands_[i]);
  attendance.acknowledge(session->second.acknowledged);
  return true;
}

// Over a new stream a rank says again what it does not know to be heard.
bool Coordinator::Service::is_new(int rank, uint64_t sequence) {
  if (sequence == 0) return true;
  const std::scoped_lock lock(mutex_);
  uint64_t& heard = sessions_[rank].heard;
  const bool fresh = sequence > heard;
  heard = std::max(heard, sequence);
  return fresh;
}

void Coordinator::Service::leave(Attendance& attendance) {
  const std::scoped_lock lock(mutex_);
  const auto found = attendances_.find(attendance.rank());
  if (found != attendances_.end() && found->second == &attendance) attendances_.erase(found);
}

std::vector<RankEvent> Coordinator::Service::take_events() {
  std::vector<RankEvent> events = events_.take();
  const std::scoped_lock lock(mutex_);
  for (const RankEvent& event : events) {
    const auto* const message = std::get_if<control::RankMessage>(&event.body);
    if (message == nullptr || message->sequence() == 0) continue;
    Session& session = sessions_[event.rank];
    session.taken = std::max(session.taken, message->sequence());
    if (message->has_step()) session.awaits_writing = true;
    if (message->has_final()) session.awaits_writing = false;
  }
  acknowledge_taken();
  return events;
}

void Coordinator::Service::steps_are_written() {
  const std::scoped_lock lock(mutex_);
  for (auto& [rank, session] : sessions_) session.awaits_writing = false;
  acknowledge_taken();
}

void Coordinator::Service::acknowledge_taken() {
  for (auto& [rank, session] : sessions_) {
    if (session.awaits_writing || session.taken <= session.acknowledged) continue;
    session.acknowledged = session.taken;
    const auto found = attendances_.find(rank);
    if (found != attendances_.end()) found->second->acknowledge(session.acknowledged);
  }
}

void Coordinator::Service::send_to_all(const control::CommandMessage& command) {
  const std::scoped_lock lock(mutex_);
  commands_.push_back(command);
  for (const auto& [rank, attendance] : attendances_) {
    attendance->send(command);
  }
}

Coordinator::Coordinator(const Options& options) : service_(std::make_unique<Service>(options)) {}
Coordinator::~Coordinator() = default;

const std::vector<std::string>& Coordinator::endpoints() const {
  static const std::vector<std::string> none;
  return service_->door() == nullptr ? none : service_->door()->endpoints();
}

const std::string& Coordinator::name() const { return service_->name(); }

uint64_t Coordinator::strangers_turned_away() const {
  return service_->door() == nullptr ? 0 : service_->door()->failures();
}

void Coordinator::adopt(Fd connection) { service_->adopt(std::move(connection)); }
int Coordinator::event_fd() const { return service_->event_fd(); }
std::vector<RankEvent> Coordinator::take_events() { return service_->take_events(); }

void Coordinator::steps_are_written() { service_->steps_are_written(); }

void Coordinator::admit(uint64_t ticket, const control::JobPlan& plan) {
  service_->answer(ticket, grpc::Status::OK, &plan);
}

void Coordinator::refuse(uint64_t ticket, const std::string& reason) {
  service_->answer(ticket, {grpc::StatusCode::FAILED_PRECONDITION, reason}, nullptr);
}

void Coordinator::send_to_all(const control::CommandMessage& command) {
  service_->send_to_all(command);
}

void Coordinator::send_to_all(control::CommandMessage::Kind kind) {
  control::CommandMessage command;
  command.set_kind(kind);
  send_to_all(command);
}

}  // namespace ds
