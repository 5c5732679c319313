#include "core/device/beside_log.h"

#include <fmt/format.h>

#include "core/device/link.h"
#include "core/status/error.h"

namespace ds {
namespace {

struct LogOfStream {
  BesideLog* log = nullptr;
};

BesideLog* wanted_of(Stream& stream) {
  if (stream.device().is_meta() || stream.is_recorded()) return nullptr;
  BesideLog* const log = stream.state<LogOfStream>().log;
  return log != nullptr && log->is_on() ? log : nullptr;
}

}  // namespace

std::string_view name_of(BesideKind kind) {
  switch (kind) {
    case BesideKind::kToDevice:
      return name_of(Link::kToDevice);
    case BesideKind::kToHost:
      return name_of(Link::kToHost);
    case BesideKind::kNvmeRead:
      return name_of(Link::kNvmeRead);
    case BesideKind::kNvmeWrite:
      return name_of(Link::kNvmeWrite);
    case BesideKind::kUpdate:
      return "update";
    case BesideKind::kUpdateAhead:
      return "update ahead";
  }
  throw InternalError("name_of: unknown work beside");
}

std::string BesideName::to_string() const {
  std::string text(what);
  if (number >= 0) text += fmt::format(" {}", number);
  if (!of.empty()) text.append(" of ").append(of);
  return text;
}

void BesideLog::turn(bool on) {
  const std::lock_guard lock(works_mutex_);
  is_on_ = on;
  works_.clear();
  under_way_.clear();
}

uint64_t BesideLog::begin(BesideWork work) {
  const std::lock_guard lock(works_mutex_);
  if (!is_on_) return 0;
  under_way_.emplace(++last_, std::move(work));
  return last_;
}

void BesideLog::end(uint64_t number, StreamMoment::Clock::time_point at) {
  const std::lock_guard lock(works_mutex_);
  auto node = under_way_.extract(number);
  if (node.empty()) return;  // told while it was under way
  node.mapped().ended_at = at;
  works_.push_back(std::move(node.mapped()));
}

std::vector<BesideWork> BesideLog::take_under_way() {
  const std::lock_guard lock(works_mutex_);
  std::vector<BesideWork> works;
  for (auto& [number, work] : std::exchange(under_way_, {})) {
    work.ended_at = StreamMoment::Clock::now();
    work.is_under_way = true;
    works.push_back(std::move(work));
  }
  return works;
}

void BesideLog::add(BesideWork work) {
  const std::lock_guard lock(works_mutex_);
  if (is_on_) works_.push_back(std::move(work));
}

std::vector<BesideWork> BesideLog::take() {
  const std::lock_guard lock(works_mutex_);
  return std::exchange(works_, {});
}

void tell_beside(Stream& stream, BesideLog& log) { stream.state<LogOfStream>().log = &log; }

BesideSpan::BesideSpan(Stream& stream, BesideKind kind, const BesideName& name, int64_t bytes)
    : stream_(stream), log_(wanted_of(stream)) {
  if (log_ == nullptr) return;
  work_ = {
      .kind = kind, .name = name.to_string(), .bytes = bytes, .begin = StreamMoment::of(stream)};
}

BesideSpan::~BesideSpan() {
  if (log_ == nullptr) return;
  try {
    work_.end = StreamMoment::of(stream_);
    log_->add(std::move(work_));
  } catch (...) {  // a trace without it, which is no reason to end
  }
}

}  // namespace ds
