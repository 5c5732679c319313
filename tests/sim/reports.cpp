// What ranks tell their launcher and must arrive exactly once: the product's ReportQueue on the
// rank's side, and on the launcher's what launcher/control/coordinator and launcher/run/supervisor
// do with it.
#include <utility>

#include "core/status/error.h"
#include "tests/sim/cluster.h"

namespace ds::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

void Cluster::report(Process& process, control::RankMessage message) {
  process.reports.add(std::move(message));
  send_reports(process);
}

void Cluster::send_reports(Process& process) {
  for (const control::RankMessage& message : process.reports.take_unsent()) {
    send_up(process, [this, me = handle(process), message] { take_report(me, message); });
  }
}

// The stream of before has broken.
void Cluster::connect_again(Process& process) {
  process.broken_stream = process.stream++;
  process.reports.rewind();
  send_reports(process);
}

void Cluster::take_report(const std::shared_ptr<Process>& process,
                          const control::RankMessage& message) {
  Launcher& l = *process->launcher;
  uint64_t& heard = l.heard[process->rank];
  if (message.sequence() > heard) {
    if (message.sequence() != heard + 1) {
      breach(fmt::format("rank {}: report {} came after report {}", process->rank,
                         message.sequence(), heard));
    }
    heard = message.sequence();
    if (message.has_step()) {
      const int64_t step = message.step().step();
      if (!l.steps_taken.insert(step).second)
        breach(fmt::format("step {} was reported twice", step));
      l.membership()->stepped(now_, process->epoch, process->rank, step);
      post(
          l, Lane::kMetrics,
          [this, &l, step] {  // as launcher/report/metrics_file: a step that is done again replaces
            spend_writer_time(l, "write");
            while (!l.metrics.empty() && l.metrics.back() >= step) l.metrics.pop_back();
            l.metrics.push_back(step);
          });
    } else if (message.has_commit()) {
      l.core->event(now_, run_event::TagCommitted{fmt::format("step{}", message.commit().step()),
                                                  Time::zero()});
    } else if (message.has_final()) {
      const control::FinalReport& final = message.final();
      l.membership()->reported_end(
          now_, process->rank, final.exit_code(),
          final.origin() == control::FinalReport::PEER ? Blame::kPeer : Blame::kOwn, final.error());
    }
  }
  at(now_ + random_time(Time(200'000), milliseconds(5)),
     [this, process, sequence = message.sequence()] { acknowledge(process, sequence); });
}

void Cluster::acknowledge(const std::shared_ptr<Process>& process, uint64_t sequence) {
  if (!process->alive || !hosts_[static_cast<size_t>(process->host)].hears) return;
  process->reports.acknowledged(sequence);
  if (process->leaving && process->reports.all_acknowledged()) die(process, *process->leaving, 0);
}

void Cluster::report_step(Process& process, int64_t step) {
  control::RankMessage message;
  message.mutable_step()->set_step(step);
  report(process, std::move(message));
}

void Cluster::report_commit(Process& process, int64_t step) {
  control::RankMessage message;
  message.mutable_commit()->set_step(step);
  report(process, std::move(message));
}

// A rank waits until all it said is heard; how long its launcher may be silent, its agent knows
// (beat()).
void Cluster::report_final(Process& process, int code, Blame blame, const std::string& words) {
  control::RankMessage message;
  control::FinalReport& final = *message.mutable_final();
  final.set_exit_code(code);
  final.set_origin(blame == Blame::kPeer ? control::FinalReport::PEER : control::FinalReport::OWN);
  final.set_error(words);
  process.leaving = code;
  report(process, std::move(message));
}

// After a launch that ended well, every step since it began stands there once, in order.
void Cluster::check_metrics(const Launcher& l) {
  if (l.reports_lost || l.followed || !l.loaded) return;
  int64_t next = *l.loaded + 1;
  for (const int64_t step : l.metrics) {
    if (step != next++) {
      breach(fmt::format("launch {}: the metrics have step {} where step {} is missing", l.number,
                         step, next - 1));
      return;
    }
  }
  if (next != kSteps + 1)
    breach(fmt::format("launch {}: the metrics of step {} are missing", l.number, next));
}

}  // namespace ds::sim
