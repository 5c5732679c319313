// The control connection over gRPC: one thread writes (reports, heartbeats), one for each stream
// reads (commands, acknowledgements). A stream between hosts that breaks is opened again.
#include "rankd/control/control_client.h"

#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <ranges>
#include <thread>
#include <utility>

#include "core/status/failpoint.h"
#include "core/tasks/host.h"
#include "core/tasks/task_limits.h"
#include "core/text/secrecy.h"
#include "core/text/utf8.h"
#include "proto/build_info.h"
#include "proto/control.grpc.pb.h"
#include "proto/grpc_threads.h"
#include "proto/step_metrics.h"
#include "rankd/control/control_channel.h"
#include "rankd/control/control_messages.h"
#include "rankd/control/report_queue.h"

namespace ds {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kHeartbeatPeriod{1};
constexpr seconds kJoinSlack{60};  // beyond the time that the launcher waits for the slowest rank
constexpr seconds kJoinRetry{20};
// After a stream between hosts broke. With the 4 s that it takes to notice a link that swallows
// everything, 12 s: as long as an agent waits for a launcher that stands still.
constexpr seconds kReconnect{8};
constexpr std::chrono::milliseconds kConnectTurn{300};
constexpr std::chrono::milliseconds kStreamTurn{
    50};  // between two streams over a connection that holds
// Steps are reported at most so often; those between wait for each other. A message wakes a thread
// at both ends.
constexpr std::chrono::milliseconds kStepReports{200};
constexpr size_t kMaxQueued = 1 << 18;  // reports kept while the launcher does not read

// What such a phase does is reading and writing files.
bool moves_files(std::string_view phase) {
  return phase == "load" || phase == "save" || phase == "export";
}

class GrpcControlClient final : public ControlClient {
 public:
  GrpcControlClient(const Bootstrap& bootstrap, std::function<void()> lost,
                    std::string data_endpoint)
      : bootstrap_(bootstrap),
        lost_(std::move(lost)),
        data_endpoint_(std::move(data_endpoint)),
        channel_(open_control_channel(bootstrap)),
        stub_(control::Control::NewStub(channel_)) {
    wipe(bootstrap_.private_key);
  }
  GrpcControlClient(const GrpcControlClient&) = delete;  // two threads hold `this`
  GrpcControlClient& operator=(const GrpcControlClient&) = delete;

  ~GrpcControlClient() override {
    end_service();
    wipe(session_);
  }

  JobPlan join() override {
    control::JoinRequest request;
    *request.mutable_identity() = identity(bootstrap_.token);
    request.set_build_id(build_id());
    request.set_protocol_version(kProtocolVersion);
    request.set_config_digest(bootstrap_.config_digest);
    request.set_pid(getpid());
    request.set_host(own_host_name());
    request.set_data_endpoint(data_endpoint_);
    control::JoinReply reply;
    const grpc::Status status = ask_to_join(request, reply);
    wipe(*request.mutable_identity()->mutable_token());
    wipe(bootstrap_.token);
    if (!status.ok()) {
      throw Error(ExitCode::kClusterUnusable,
                  fmt::format("join: rank {} was not admitted by the launcher: {}", bootstrap_.rank,
                              status.error_message()));
    }
    DS_FAILPOINT("control.admitted");
    session_ = std::move(*reply.mutable_session());
    service_ = start_thread("the control connection", [this] { serve(); });
    return to_job_plan(reply.plan());
  }

  void report_progress(const Progress& progress) override {
    const std::scoped_lock lock(mutex_);
    // A save must not outlive the word of the steps before it.
    if (standing_.progress.phase() != progress.phase && reports_.has_unsent()) send_reports();
    standing_.moved_bytes = 0;
    standing_.progress.set_step(progress.step);
    standing_.progress.set_micro_step(progress.micro_step);
    standing_.progress.set_phase(progress.phase);
    standing_.progress.set_total(progress.total);
  }

  void report_moved(int64_t bytes) override {
    const std::scoped_lock lock(mutex_);
    if (!moves_files(standing_.progress.phase())) return;
    standing_.moved_bytes += bytes;
    standing_.progress.set_micro_step(standing_.moved_bytes >> 20);
  }

  void watch_collectives(std::function<CollectiveMark()> newest) override {
    const std::scoped_lock lock(mutex_);
    newest_collective_ = std::move(newest);
  }

  void watch_links(std::shared_ptr<const LinkBoard> board) override {
    const std::scoped_lock lock(mutex_);
    board_ = std::move(board);
  }

  void on_dump(std::function<void()> dump) override {
    const std::scoped_lock lock(mutex_);
    dump_ = std::move(dump);
  }

  void report_step(const StepMetrics& metrics) override {
    control::RankMessage message;
    *message.mutable_step() = to_proto(metrics);
    enqueue(std::move(message), Urgency::kMayWait);
    DS_FAILPOINT("control.step_queued");
  }

  std::vector<StepMetrics> untaken_steps() const override {
    constexpr size_t kMost = 1'000;  // the newest; they go with every state that is saved
    std::vector<StepMetrics> out;
    const std::scoped_lock lock(mutex_);
    for (const control::RankMessage& message : reports_.waiting() | std::views::reverse) {
      if (out.size() == kMost) break;
      if (message.has_step()) out.push_back(from_proto(message.step()));
    }
    std::ranges::reverse(out);
    return out;
  }

  void report_commit(const SavedTag& tag) override {
    control::RankMessage message;
    DS_FAILPOINT("control.before_commit_report");
    message.mutable_commit()->set_tag(tag.tag);
    message.mutable_commit()->set_step(tag.step);
    message.mutable_commit()->set_seconds(tag.seconds);
    enqueue(std::move(message));
    DS_FAILPOINT("control.commit_queued");
  }

  void report_text(std::string_view line) override {
    control::RankMessage message;
    message.set_text(as_utf8(line));
    enqueue(std::move(message));
  }

  void report_plan(std::string_view plan_json) override {
    control::RankMessage message;
    message.set_plan_json(std::string(plan_json));
    enqueue(std::move(message));
  }

  void report_measured(const Measured& measured) override {
    control::RankMessage message;
    control::Measured& out = *message.mutable_measured();
    out.set_steps(measured.steps);
    out.set_device_bytes_peak(measured.device_bytes_peak);
    out.set_host_bytes_peak(measured.host_bytes_peak);
    out.set_nvme_bytes(measured.nvme_bytes);
    out.set_rss_bytes_peak(measured.rss_bytes_peak);
    out.mutable_categories()->insert(measured.categories.begin(), measured.categories.end());
    out.mutable_results()->insert(measured.results.begin(), measured.results.end());
    enqueue(std::move(message));
  }

  void report_generated(std::string text) override {
    control::RankMessage message;
    message.set_generated(std::move(text));
    enqueue(std::move(message));
  }

  void report_bad_number(std::string_view json) override {
    control::RankMessage message;
    message.set_bad_number_json(as_utf8(json));
    enqueue(std::move(message));
  }

  std::optional<Command> poll() override {
    const std::scoped_lock lock(mutex_);
    if (received_.commands.empty()) {
      return std::nullopt;
    }
    const Command command = received_.commands.front();
    received_.commands.pop_front();
    return command;
  }

  TraceOrder take_trace_order() override {
    const std::scoped_lock lock(mutex_);
    DS_CHECK(!received_.traces.empty(), "trace: there is no order");
    TraceOrder order = std::move(received_.traces.front());
    received_.traces.pop_front();
    return order;
  }

  void report_trace(std::string text, bool last) override {
    control::RankMessage message;
    message.mutable_trace()->set_text(std::move(text));
    message.mutable_trace()->set_last(last);
    enqueue(std::move(message));
  }

  bool finish(ExitCode code, ErrorOrigin origin, std::string_view error) override {
    if (!service_.joinable()) {
      return false;
    }
    control::RankMessage message;
    control::FinalReport& report = *message.mutable_final();
    report.set_exit_code(static_cast<int>(code));
    report.set_origin(to_origin(origin));
    report.set_error(as_utf8(error));  // it may quote a file's name, and a string has to be UTF-8
    {
      const std::scoped_lock lock(mutex_);
      reports_.add(std::move(message));
      is_.ending = true;
      turns_.next_heartbeat = steady_clock::now();  // where it was at the end
    }
    changed_.notify_all();
    DS_FAILPOINT("control.final_queued");
    service_.join();
    return reports_.all_acknowledged();
  }

 private:
  // Over a network the launcher may have had no room for us just then.
  grpc::Status ask_to_join(const control::JoinRequest& request, control::JoinReply& reply) {
    const auto give_up = steady_clock::now() + kJoinRetry;
    while (true) {
      await_launcher(*channel_, bootstrap_);
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + bootstrap_.join_timeout + kJoinSlack);
      grpc::Status status = stub_->Join(&context, request, &reply);
      if (status.error_code() != grpc::StatusCode::UNAVAILABLE || bootstrap_.certificate.empty() ||
          steady_clock::now() > give_up) {
        return status;
      }
    }
  }

  void end_service() {
    if (!service_.joinable()) return;
    {
      const std::scoped_lock lock(mutex_);
      is_.ending = is_.leaving = true;  // first: an end that we make is no loss
      if (context_ != nullptr) context_->TryCancel();
    }
    changed_.notify_all();
    service_.join();
  }

  control::Identity identity(const std::string& token) const {
    control::Identity out;
    out.set_rank(bootstrap_.rank);
    out.set_epoch(bootstrap_.epoch);
    out.set_token(token);
    return out;
  }

  enum class Urgency { kNow, kMayWait };

  void enqueue(control::RankMessage message, Urgency urgency = Urgency::kNow) {
    const std::scoped_lock lock(mutex_);
    if (is_.ending || is_.lost_for_good) {
      return;
    }
    const bool first = !reports_.has_unsent();
    reports_.add(std::move(message));
    if (urgency == Urgency::kNow) {
      send_reports();
    } else if (first) {
      turns_.send_at = std::max(steady_clock::now(), turns_.sent_at + kStepReports);
      changed_.notify_all();
    }
  }

  void send_reports() {  // under mutex_
    turns_.send_at = steady_clock::time_point::min();
    changed_.notify_all();
  }

  control::Progress heartbeat() const {  // under mutex_
    control::Progress out = standing_.progress;
    if (newest_collective_) {
      const CollectiveMark mark = newest_collective_();
      control::Progress::Collective& last = *out.mutable_collective();
      last.set_number(mark.number);
      last.set_group(mark.group);
      last.set_sequence(mark.sequence);
      last.set_op(mark.op);
      last.set_inside(mark.inside);
    }
    if (!board_) return out;
    for (const LinkTrouble& trouble : board_->troubles()) {
      control::Progress::Link& link = *out.add_cut_links();
      link.set_peer(trouble.peer);
      link.set_heard(trouble.heard);
      link.set_what(trouble.what);
    }
    return out;
  }

  using Stream = grpc::ClientReaderWriter<control::RankMessage, control::CommandMessage>;

  bool over() const {
    return is_.leaving || (is_.ending && reports_.all_acknowledged());
  }  // under mutex_

  // The life of the connection: one stream after the other, until all is said or the launcher is
  // lost.
  void serve() {
    auto give_up = steady_clock::time_point::max();
    while (true) {
      const grpc::StatusCode how = hold_stream(give_up);
      std::unique_lock lock(mutex_);
      if (over()) return;
      // Whoever inherited its connection has no other; and who is told to go has a successor.
      if (bootstrap_.certificate.empty() || how == grpc::StatusCode::PERMISSION_DENIED) break;
      lock.unlock();
      if (!connect_again(give_up)) break;
    }
    bool unexpected = false;
    {
      const std::scoped_lock lock(mutex_);
      is_.lost_for_good = true;
      unexpected = !is_.ending;
    }
    if (unexpected && lost_) lost_();
  }

  // False: the launcher is lost, or nobody wants it any more. gRPC gets on with a connection only
  // while a thread waits for it.
  bool connect_again(steady_clock::time_point give_up) {
    std::this_thread::sleep_for(kStreamTurn);
    while (!channel_->WaitForConnected(std::chrono::system_clock::now() + kConnectTurn)) {
      const std::scoped_lock lock(mutex_);
      if (is_.leaving || steady_clock::now() >= give_up) return false;
    }
    return true;
  }

  // Opens a stream and speaks over it as long as it goes. `give_up` is renewed whenever the
  // launcher is heard.
  grpc::StatusCode hold_stream(steady_clock::time_point& give_up) {
    grpc::ClientContext context;
    {
      const std::scoped_lock lock(mutex_);
      if (is_.leaving) return grpc::StatusCode::CANCELLED;
      context_ = &context;
      is_.broken = false;
      reports_.rewind();
    }
    const std::unique_ptr<Stream> stream = stub_->Attend(&context);
    control::RankMessage hello;
    *hello.mutable_hello() = identity(session_);
    hello.set_commands_seen(commands_seen_);
    grpc::StatusCode how = grpc::StatusCode::UNAVAILABLE;
    const bool told = stream->Write(hello);
    wipe(*hello.mutable_hello()->mutable_token());
    if (told) {
      std::thread reader = start_reader(*stream);
      write_until_end(*stream);
      reader.join();
    }
    const grpc::Status status = stream->Finish();
    how = status.error_code();
    const std::scoped_lock lock(mutex_);
    context_ = nullptr;
    if (!over())
      spdlog::info("the stream to the launcher ended: {} ({})", status.error_message(),
                   static_cast<int>(how));
    if (std::exchange(is_.heard, false)) give_up = steady_clock::now() + kReconnect;
    if (give_up == steady_clock::time_point::max()) give_up = steady_clock::now() + kReconnect;
    return how;
  }

  // What is due: all that is queued, a heartbeat, or both. Waits for it; empty once the stream is
  // at its end.
  std::vector<control::RankMessage> take_due() {
    std::unique_lock lock(mutex_);
    const auto next = [&] { return std::min(turns_.send_at, turns_.next_heartbeat); };
    while (!over() && !is_.broken && !(is_.ending && reports_.has_unsent()) &&
           steady_clock::now() < next()) {
      changed_.wait_until(lock, next());
    }
    if (over() || is_.broken) return {};
    turns_.send_at = steady_clock::time_point::max();
    std::vector<control::RankMessage> due;
    if (steady_clock::now() >= turns_.next_heartbeat) {
      DS_FAILPOINT("control.heartbeat");
      *due.emplace_back().mutable_heartbeat() = heartbeat();
      turns_.next_heartbeat = steady_clock::now() + kHeartbeatPeriod;
    }
    std::vector<control::RankMessage> reports = reports_.take_unsent();
    if (!reports.empty()) turns_.sent_at = steady_clock::now();
    std::ranges::move(reports, std::back_inserter(due));
    return due;
  }

  // There is nobody to whom this thread could throw, and without a reader nothing is heard.
  std::thread start_reader(Stream& stream) {
    try {
      return start_thread("the launcher's commands", [&] { read_until_end(stream); });
    } catch (const Error& error) {
      spdlog::error("{}", error.what());
      _exit(static_cast<int>(error.exit_code()));
    }
  }

  void write_until_end(Stream& stream) {
    while (true) {
      const std::vector<control::RankMessage> due = take_due();
      if (due.empty()) break;
      for (const control::RankMessage& message : due) {
        grpc::WriteOptions options;
        if (&message != &due.back()) options.set_buffer_hint();
        if (!stream.Write(message, options)) return;
      }
    }
    stream.WritesDone();
  }

  void dump() {
    std::function<void()> dump;
    {
      const std::scoped_lock lock(mutex_);
      dump = dump_;
    }
    if (dump) dump();  // without the lock: heartbeats go on meanwhile
  }

  void read_until_end(Stream& stream) {
    control::CommandMessage message;
    while (stream.Read(&message)) {
      if (message.kind() == control::CommandMessage::DUMP) dump();
      const std::scoped_lock lock(mutex_);
      is_.heard = true;
      reports_.acknowledged(message.acknowledged());
      if (message.kind() != control::CommandMessage::NONE) ++commands_seen_;
      if (const std::optional<Command> command = to_command(message.kind())) {
        DS_FAILPOINT("control.command");
        if (*command == Command::kTrace) received_.traces.push_back(to_trace_order(message));
        received_.commands.push_back(*command);
      }
      changed_.notify_all();
    }
    const std::scoped_lock lock(mutex_);
    is_.broken = true;
    changed_.notify_all();
  }

  Bootstrap bootstrap_;  // without the secrets that are used up
  const std::function<void()> lost_;
  const std::string data_endpoint_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<control::Control::Stub> stub_;
  std::string session_;  // before service_
  std::thread service_;
  std::condition_variable changed_;
  mutable std::mutex mutex_;                // guards everything below
  grpc::ClientContext* context_ = nullptr;  // of the stream at hand
  ReportQueue reports_{kMaxQueued};
  struct Received {  // and not handed out
    std::deque<Command> commands;
    std::deque<TraceOrder> traces;  // of those among them
  } received_;
  uint64_t commands_seen_ = 0;  // of any kind, known here or not
  struct Standing {
    control::Progress progress;
    int64_t moved_bytes = 0;  // in this phase
  };
  Standing standing_;
  std::shared_ptr<const LinkBoard> board_;
  std::function<CollectiveMark()> newest_collective_;
  std::function<void()> dump_;
  struct Turns {
    steady_clock::time_point send_at = steady_clock::time_point::max();  // what is queued
    steady_clock::time_point sent_at{};
    steady_clock::time_point next_heartbeat = steady_clock::now();
  } turns_;
  struct Connection {
    bool ending = false;   // nothing more will be queued
    bool leaving = false;  // and nobody waits for what is
    bool broken = false;   // the stream at hand
    bool heard = false;    // something over it
    bool lost_for_good = false;
  } is_;
};

}  // namespace

std::unique_ptr<ControlClient> connect_control(const Bootstrap& bootstrap,
                                               std::function<void()> lost,
                                               const std::string& data_endpoint) {
  constexpr int kOwnThreads = 2;  // that serves, and that reads
  require_threads(grpc_threads_of_client(grpc_cores()) + kOwnThreads, "the control connection");
  return std::make_unique<GrpcControlClient>(bootstrap, std::move(lost), data_endpoint);
}

}  // namespace ds
