#include "launcher/agents/host_link.h"

#include <fcntl.h>
#include <signal.h>

#include <array>
#include <cerrno>

#include "core/status/error.h"
#include "core/text/secrecy.h"
#include "launcher/process/credentials.h"

namespace ds {
namespace {

using std::chrono::seconds;

constexpr seconds kBeatPeriod{1};
constexpr seconds kAgentSilence{10};  // below the agent's own patience with us
constexpr size_t kLinesKept = 8;
constexpr size_t kLongestKept = 300;

std::string find_program(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) {
    return name;
  }
  while (!path.empty()) {
    const size_t colon = std::min(path.find(':'), path.size());
    const std::string candidate = fmt::format("{}/{}", path.substr(0, colon), name);
    if (colon > 0 && access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    path.remove_prefix(std::min(colon + 1, path.size()));
  }
  throw InputMissing(fmt::format("{} is not on the PATH of this machine", name));
}

}  // namespace

HostLink::HostLink(std::string host, const std::vector<std::string>& argv,
                   const std::vector<std::string>& environment, std::string_view path)
    : host_(std::move(host)),
      program_(argv.at(0)),
      marker_(to_hex(random_bytes(kMarkerBytes / 2))),
      reader_(marker_),
      heard_(Clock::now()),
      beat_(heard_) {
  PipeEnds input = make_pipe();
  PipeEnds output = make_pipe();
  PipeEnds errors = make_pipe();
  SpawnOptions spawn;
  spawn.program = find_program(program_, path);
  spawn.arguments.assign(argv.begin() + 1, argv.end());
  spawn.environment = environment;
  spawn.descriptors = {{STDIN_FILENO, input.read.get()},
                       {STDOUT_FILENO, output.write.get()},
                       {STDERR_FILENO, errors.write.get()}};
  process_.emplace(spawn);
  fcntl(errors.read.get(), F_SETFL, O_NONBLOCK);
  errors_ = std::move(errors.read);
  channel_ = std::make_unique<PipeChannel>(std::move(output.read), std::move(input.write));
  channel_->send(greeting_line(marker_));
}

HostLink::HostLink(std::unique_ptr<ByteChannel> channel)
    : program_("its connection"),
      marker_(to_hex(random_bytes(kMarkerBytes / 2))),
      channel_(std::move(channel)),
      reader_(marker_),
      heard_(Clock::now()),
      beat_(heard_) {
  channel_->send(greeting_line(marker_));
}

void HostLink::add_poll_descriptors(std::vector<pollfd>& out) const {
  if (!lost_.empty()) {
    return;
  }
  channel_->add_poll_descriptors(out);
  if (errors_.valid()) out.push_back({errors_.get(), POLLIN, 0});
  if (process_) out.push_back({process_->end_fd(), POLLIN, 0});
}

void HostLink::send(const agent::ToAgent& message) {
  if (lost_.empty()) {
    std::string body = message.SerializeAsString();
    std::string lines = encode_message(marker_, body);
    channel_->send(lines);
    wipe(body);
    wipe(lines);
  }
}

void HostLink::pump(Clock::time_point now, const MessageSink& sink) {
  if (!lost_.empty()) {
    return;
  }
  read_errors();
  bool open = false;
  try {
    open = channel_->pump([&](std::string_view bytes) {
      reader_.feed(
          bytes, [&](std::string_view body) { take_message(body, now, sink); },
          [this](std::string_view line) { keep(line); });
    });
  } catch (const CommError& error) {
    abandon(error.what());
    return;
  }
  const std::optional<ExitStatus> status = process_ ? process_->try_wait() : std::nullopt;
  if (status) {
    read_errors();
    lose(fmt::format("{} {}", program_, describe(*status)));
  } else if (!process_ && !open) {
    lose("its connection ended");
  } else if (ready_ && now - beat_ >= kBeatPeriod) {
    // A launcher that was stopped for a while must not take its own silence for theirs.
    heard_ = now - beat_ > 2 * kBeatPeriod ? now : heard_;
    beat_ = now;
    agent::ToAgent beat;
    beat.mutable_beat();
    send(beat);
  }
  if (lost_.empty() && ready_ && now - heard_ > kAgentSilence) {
    abandon(fmt::format("no sign of life for {} s", kAgentSilence.count()));
  }
}

void HostLink::abandon(const std::string& why) {
  if (lost_.empty()) {
    read_errors();
    lose(why);
    if (process_) process_->signal_group(SIGKILL);
    channel_->close();
  }
}

bool HostLink::leave(Clock::time_point now, int exit_code) {
  if (!leaving_) {
    agent::ToAgent message;
    message.mutable_leave()->set_exit_code(exit_code);
    send(message);
    leaving_ = true;
  }
  pump(now, [](const agent::FromAgent&) {});
  if (lost_.empty() && channel_->waiting() == 0) {
    channel_->close_output();
  }
  return !lost_.empty();
}

void HostLink::take_message(std::string_view body, Clock::time_point now, const MessageSink& sink) {
  agent::FromAgent message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    throw CommError("agent channel: a message that is none");
  }
  // Only answers to beats show that it hears us, too.
  if (message.has_ready() || message.has_beat()) heard_ = now;
  if (message.has_ready()) {
    ready_ = message.ready();
  } else {
    sink(message);
  }
}

void HostLink::read_errors() {
  std::array<char, 4096> bytes{};
  const auto take = [this](std::string_view line) { keep(line); };
  while (errors_.valid()) {
    const ssize_t got = read(errors_.get(), bytes.data(), bytes.size());
    if (got > 0) {
      error_lines_.feed({bytes.data(), static_cast<size_t>(got)}, take);
    } else if (got == 0) {
      error_lines_.finish(take);
      errors_ = Fd();
    } else if (errno != EINTR) {
      return;
    }
  }
}

void HostLink::keep(std::string_view line) {
  std::string text(line.substr(0, kLongestKept));
  while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) {
    text.pop_back();
  }
  if (text.empty()) {
    return;
  }
  said_.push_back(std::move(text));
  if (said_.size() > kLinesKept) {
    said_.pop_front();
  }
}

void HostLink::lose(const std::string& why) {
  const std::string words = last_output();
  lost_ = words.empty() ? why : fmt::format("{}: {}", why, words);
}

std::string HostLink::last_output() const { return fmt::format("{}", fmt::join(said_, " | ")); }

}  // namespace ds
