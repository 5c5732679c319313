#include "launcher/agents/host_survey.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

#include "core/status/error.h"
#include "launcher/agents/host_probe.h"
#include "launcher/control/peer_dial.h"
#include "launcher/process/credentials.h"

namespace ds {
namespace {

namespace fs = std::filesystem;
using Clock = HostLink::Clock;

constexpr std::chrono::seconds kAnswerLimit{8};  // below the silence that ends an agent
constexpr size_t kNonceBytes = 8;

std::string nearest_directory(const std::string& path) {
  std::error_code error;
  fs::path at = path;
  while (at.has_relative_path() && !fs::is_directory(at, error)) at = at.parent_path();
  return at.string();
}

// A file of ours for as long as the survey takes.
class Witness {
 public:
  explicit Witness(const std::string& directory)
      : text_(to_hex(random_bytes(kNonceBytes))),
        path_(fmt::format("{}/.dslaunch-preflight-{}", nearest_directory(directory), text_)),
        error_(write_new_file(path_, text_)) {}
  Witness(const Witness&) = delete;  // removes its file
  Witness& operator=(const Witness&) = delete;
  ~Witness() {
    if (error_.empty()) unlink(path_.c_str());
  }
  const std::string& text() const { return text_; }
  const std::string& path() const { return path_; }
  const std::string& error() const { return error_; }
  std::string path_of_host(size_t number) const { return fmt::format("{}-{}", path_, number); }

 private:
  const std::string text_;
  const std::string path_;
  const std::string error_;
};

class Survey {
 public:
  Survey(const SlotMap& hosts, const HostAgents::Outcome& reached, const SurveyOrders& orders)
      : orders_(orders), reached_(reached), witness_(orders.directory) {
    for (size_t i = 0; i < hosts.size(); ++i) {
      out_.push_back({.host = hosts[i]});
      if (const auto problem = reached.problems.find(hosts[i].name);
          problem != reached.problems.end()) {
        out_[i].problem = problem->second;
        out_[i].advice = advice_for(problem->second);
      }
    }
  }

  std::vector<SurveyedHost> run() {
    ask([this](size_t i) { return collect_order(i); },
        [this](size_t i, const agent::Facts& facts, int64_t sent, int64_t received) {
          out_[i].clock = clock_offset(sent, facts.asked_us(), facts.answered_us(), received);
          out_[i].facts = facts;
        });
    look_for_own_files();
    if (orders_.depth == SurveyDepth::kFull) dial();
    agent::ToAgent end;
    end.mutable_probe()->set_step(agent::Probe::END);
    for (size_t i = 0; i < out_.size(); ++i) {
      if (asked(i)) reached_.hosts[i].link->send(end);
    }
    return std::move(out_);
  }

 private:
  using Orders = std::function<agent::Probe(size_t host)>;
  using Answer =
      std::function<void(size_t host, const agent::Facts&, int64_t sent_us, int64_t received_us)>;

  bool asked(size_t i) const { return out_[i].problem.empty(); }

  agent::Probe collect_order(size_t i) const {
    agent::Probe order;
    order.set_step(agent::Probe::COLLECT);
    order.set_directory(orders_.directory);
    if (witness_.error().empty()) {
      order.set_witness_file(witness_.path());
      order.set_witness_text(witness_.text());
      order.set_own_file(witness_.path_of_host(i));
    }
    order.mutable_nvme_paths()->Add(orders_.nvme_paths.begin(), orders_.nvme_paths.end());
    order.set_program(orders_.program);
    if (orders_.depth == SurveyDepth::kFull)
      order.set_listen_address(reached_.hosts[i].data_address);
    return order;
  }

  void look_for_own_files() {
    for (size_t i = 0; i < out_.size(); ++i) {
      if (!asked(i)) continue;
      std::error_code error;
      if (!witness_.error().empty()) {
        out_[i].own_file_error = fmt::format("cannot write there: {}", witness_.error());
      } else if (out_[i].facts->witness_error().empty() &&
                 !fs::exists(witness_.path_of_host(i), error)) {
        out_[i].own_file_error = "No such file or directory";
      }
    }
  }

  // Everybody dials everybody else, and us.
  void dial() {
    std::map<std::string, PeerListener> ours;  // by the address that a host reaches us at
    std::map<std::string, std::string> names;  // of endpoints
    for (size_t i = 0; i < out_.size(); ++i) {
      if (!asked(i)) continue;
      names[out_[i].facts->endpoint()] = out_[i].host.name;
      const std::string& address = reached_.hosts[i].coordinator_address;
      if (ours.contains(address)) continue;
      try {
        ours[address] = listen_for_dials(address, orders_.coordinator_port);
        names[ours[address].endpoint] = "the launcher";
      } catch (const Error& error) {
        out_[i].facts->set_listen_error(fmt::format("the launcher: {}", error.what()));
      }
    }
    ask(
        [&](size_t i) {
          agent::Probe order;
          order.set_step(agent::Probe::DIAL);
          for (size_t other = 0; other < out_.size(); ++other) {
            if (other != i && asked(other) && !out_[other].facts->endpoint().empty()) {
              order.add_endpoints(out_[other].facts->endpoint());
            }
          }
          const auto launcher = ours.find(reached_.hosts[i].coordinator_address);
          if (launcher != ours.end()) order.add_endpoints(launcher->second.endpoint);
          return order;
        },
        [&](size_t i, const agent::Facts& facts, int64_t, int64_t) {
          for (agent::DialFailure failure : facts.dial_failures()) {
            failure.set_endpoint(
                fmt::format("{} ({})", names[failure.endpoint()], failure.endpoint()));
            *out_[i].facts->add_dial_failures() = failure;
          }
        });
  }

  void ask(const Orders& order_of, const Answer& take) {
    ++round_;
    std::vector<int64_t> sent(out_.size());
    std::vector<bool> answered(out_.size(), true);
    for (size_t i = 0; i < out_.size(); ++i) {
      if (!asked(i)) continue;
      agent::ToAgent message;
      *message.mutable_probe() = order_of(i);
      message.mutable_probe()->set_round(round_);
      sent[i] = wall_clock_us();
      reached_.hosts[i].link->send(message);
      answered[i] = false;
    }
    const auto deadline = Clock::now() + kAnswerLimit;
    while (std::ranges::find(answered, false) != answered.end() && Clock::now() < deadline) {
      std::vector<pollfd> watched;
      for (size_t i = 0; i < out_.size(); ++i) {
        if (!answered[i]) reached_.hosts[i].link->add_poll_descriptors(watched);
      }
      poll(watched.data(), watched.size(), 100);
      for (size_t i = 0; i < out_.size(); ++i) {
        if (answered[i]) continue;
        HostLink& link = *reached_.hosts[i].link;
        link.pump(Clock::now(), [&](const agent::FromAgent& message) {
          if (!message.has_facts() || message.facts().round() != round_) return;
          take(i, message.facts(), sent[i], wall_clock_us());
          answered[i] = true;
        });
        if (!answered[i] && !link.lost().empty()) {
          out_[i].problem = link.lost();
          answered[i] = true;
        }
      }
    }
    for (size_t i = 0; i < out_.size(); ++i) {
      if (answered[i]) continue;
      out_[i].problem =
          fmt::format("it does not say what it is like within {} s", kAnswerLimit.count());
      out_[i].advice = "a file system of the run directory or of nvme_path may hang there";
    }
  }

  const SurveyOrders& orders_;
  const HostAgents::Outcome& reached_;
  const Witness witness_;
  std::vector<SurveyedHost> out_;
  int round_ = 0;
};

}  // namespace

std::vector<SurveyedHost> survey_hosts(const SlotMap& hosts, const HostAgents::Outcome& reached,
                                       const SurveyOrders& orders) {
  DS_CHECK(hosts.size() == reached.hosts.size(), "survey: {} hosts, {} of them asked", hosts.size(),
           reached.hosts.size());
  return Survey(hosts, reached, orders).run();
}

SurveyedHost survey_this_machine(HostSlots host, VisibleGpus gpus, const SurveyOrders& orders) {
  agent::Probe order;
  order.set_step(agent::Probe::COLLECT);
  order.set_directory(orders.directory);
  order.mutable_nvme_paths()->Add(orders.nvme_paths.begin(), orders.nvme_paths.end());
  order.set_program(orders.program);
  SurveyedHost out{.host = std::move(host)};
  out.facts = HostProbe(std::move(gpus)).execute(order, wall_clock_us());
  return out;
}

}  // namespace ds
