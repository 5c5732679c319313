#include "core/device/background_log.h"

#include <fmt/format.h>

#include "core/device/link.h"
#include "core/status/error.h"

namespace ds {
namespace {

struct LogOfStream {
  BackgroundLog* log = nullptr;
};

BackgroundLog* wanted_of(Stream& stream) {
  if (stream.device().is_meta() || stream.is_recorded()) return nullptr;
  BackgroundLog* const log = stream.state<LogOfStream>().log;
  return log != nullptr && log->is_on() ? log : nullptr;
}

}  // namespace

std::string_view name_of(BackgroundKind kind) {
  switch (kind) {
    case BackgroundKind::kToDevice:
      return name_of(Link::kToDevice);
    case BackgroundKind::kToHost:
      return name_of(Link::kToHost);
    case BackgroundKind::kNvmeRead:
      return name_of(Link::kNvmeRead);
    case BackgroundKind::kNvmeWrite:
      return name_of(Link::kNvmeWrite);
    case BackgroundKind::kUpdate:
      return "update";
    case BackgroundKind::kUpdateAhead:
      return "update ahead";
  }
  throw InternalError("name_of: unknown work beside");
}

std::string BackgroundName::to_string() const {
  std::string text(what);
  if (number >= 0) text += fmt::format(" {}", number);
  if (!of.empty()) text.append(" of ").append(of);
  return text;
}

void BackgroundLog::turn(bool on) {
  const std::lock_guard lock(works_mutex_);
  is_on_ = on;
  works_.clear();
  under_way_.clear();
}

uint64_t BackgroundLog::begin(BackgroundWork work) {
  const std::lock_guard lock(works_mutex_);
  if (!is_on_) return 0;
  under_way_.emplace(++last_, std::move(work));
  return last_;
}

void BackgroundLog::end(uint64_t number, StreamMoment::Clock::time_point at) {
  const std::lock_guard lock(works_mutex_);
  auto node = under_way_.extract(number);
  if (node.empty()) return;  // told while it was under way
  node.mapped().ended_at = at;
  works_.push_back(std::move(node.mapped()));
}

std::vector<BackgroundWork> BackgroundLog::take_under_way() {
  const std::lock_guard lock(works_mutex_);
  std::vector<BackgroundWork> works;
  for (auto& [number, work] : std::exchange(under_way_, {})) {
    work.ended_at = StreamMoment::Clock::now();
    work.is_under_way = true;
    works.push_back(std::move(work));
  }
  return works;
}

void BackgroundLog::add(BackgroundWork work) {
  const std::lock_guard lock(works_mutex_);
  if (is_on_) works_.push_back(std::move(work));
}

std::vector<BackgroundWork> BackgroundLog::take() {
  const std::lock_guard lock(works_mutex_);
  return std::exchange(works_, {});
}

void report_background(Stream& stream, BackgroundLog& log) {
  stream.state<LogOfStream>().log = &log;
}

BackgroundSpan::BackgroundSpan(Stream& stream, BackgroundKind kind, const BackgroundName& name,
                               int64_t bytes)
    : stream_(stream), log_(wanted_of(stream)) {
  if (log_ == nullptr) return;
  work_ = {
      .kind = kind, .name = name.to_string(), .bytes = bytes, .begin = StreamMoment::of(stream)};
}

BackgroundSpan::~BackgroundSpan() {
  if (log_ == nullptr) return;
  try {
    work_.end = StreamMoment::of(stream_);
    log_->add(std::move(work_));
  } catch (...) {  // a trace without it, which is no reason to end
  }
}

}  // namespace ds
