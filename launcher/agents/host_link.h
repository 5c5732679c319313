// The launcher's end of one agent: the command that started it (ssh, mpirun, srun) or the
// connection by which it came, the messages to and from it, and what the command said in case it
// fails. Refuses to know what ranks are.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agents/agent_protocol.h"
#include "launcher/control/byte_channel.h"
#include "launcher/process/process.h"
#include "proto/agent.pb.h"

namespace ds {

class HostLink {
 public:
  using Clock = std::chrono::steady_clock;
  using MessageSink = std::function<void(const agent::FromAgent& message)>;

  // Starts argv, whose first word is looked up on `path`. Throws InputMissing, IoError.
  HostLink(std::string host, const std::vector<std::string>& argv,
           const std::vector<std::string>& environment, std::string_view path);
  // To an agent that dialled us; its host's name comes with what it says first.
  explicit HostLink(std::unique_ptr<ByteChannel> channel);
  HostLink(const HostLink&) = delete;  // pipes and a process
  HostLink& operator=(const HostLink&) = delete;

  const std::string& host() const { return host_; }
  void set_host(const std::string& host) { host_ = host; }
  const std::optional<agent::Ready>& ready() const { return ready_; }
  // Why nothing will come any more; empty while the agent may be there.
  const std::string& lost() const { return lost_; }

  // Since the agent was last heard.
  Clock::duration silence(Clock::time_point now) const { return now - heard_; }

  void add_poll_descriptors(std::vector<pollfd>& out) const;
  void send(const agent::ToAgent& message);
  // Reads and writes what goes, keeps the agent's lease alive, and notices its end and its silence.
  void pump(Clock::time_point now, const MessageSink& sink);
  // Ends the command at once; the agent sees the end of its input and ends what it started.
  void abandon(const std::string& why);
  // Asks the agent to go, with this exit code. True once the command has ended.
  bool leave(Clock::time_point now, int exit_code);

 private:
  void take_message(std::string_view body, Clock::time_point now, const MessageSink& sink);
  void read_errors();
  void keep(std::string_view line);
  void lose(const std::string& why);
  std::string last_output() const;

  std::string host_;
  const std::string program_;
  const std::string marker_;
  std::optional<Process> process_;  // none: the agent dialled us
  std::unique_ptr<ByteChannel> channel_;
  Fd errors_;
  MessageReader reader_;
  LineBuffer error_lines_;
  std::deque<std::string> said_;  // the last lines that were no messages
  std::optional<agent::Ready> ready_;
  std::string lost_;
  Clock::time_point heard_;
  Clock::time_point beat_;
  bool leaving_ = false;
};

}  // namespace ds
